"""How bv3's own renderer is started as a part of a stack, whichever backend it serves."""

from __future__ import annotations

import sys
from pathlib import Path

from broker.settings import Manifest
from workers.boxfile import BoxFile
from workers.stack.driver import profile_of, recordings_of
from workers.stack.parts import Part


def describe_renderer(box: BoxFile, manifest: Manifest, *, token: Path, dashboard_id: str, ready: Path) -> Part:
    """The Playwright renderer of this box's one dashboard."""
    environment = {"PYTHONUNBUFFERED": "1", **manifest.chromium_env}
    if manifest.playwright_node:
        environment["PLAYWRIGHT_NODEJS_PATH"] = manifest.playwright_node
    argv = (
        sys.executable,
        "-m",
        "workers.renderer",
        f"--backend=http://127.0.0.1:{box.ports.backend}",
        f"--token-file={token}",
        f"--dashboard-id={dashboard_id}",
        f"--chromium={manifest.chromium}",
        *(f"--chromium-arg={argument}" for argument in manifest.chromium_args),
        *_describe_pages(box),
        *([f"--profile-dir={profile_of(box)}"] if box.profile.policy == "persistent" else []),
        *([f"--record={box.record}", f"--record-dir={recordings_of(box)}"] if box.record != "none" else []),
        f"--ready-file={ready}",
    )
    return Part(name="renderer", argv=argv, environment=environment)


def _describe_pages(box: BoxFile) -> tuple[str, ...]:
    if box.pages == "web":
        return ()
    # The sites answer under their real names, and nothing leaves the machine.
    ports = box.ports
    return (
        f"--host-map=MAP *:443 127.0.0.1:{ports.https}, MAP *:80 127.0.0.1:{ports.http}",
        "--ignore-certificate-errors",
    )
