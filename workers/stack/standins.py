"""bv3's own router and sites as parts of a stack: fixed answers for a model, loopback pages for the web."""

from __future__ import annotations

import sys

from broker.settings import Manifest
from workers.boxfile import BoxFile
from workers.stack.driver import folder_of
from workers.stack.parts import Part

REFERENCE = (sys.executable, "-m", "infra.reference")
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


def describe_router(box: BoxFile) -> Part:
    """The stub router of the lane `stub`."""
    argv = (*REFERENCE, "router", "--port", str(box.ports.router))
    return Part(name="router", argv=argv, environment=UNBUFFERED)


def describe_sites(box: BoxFile, manifest: Manifest) -> Part:
    """The loopback sites under the real host names."""
    ports = ("--http-port", str(box.ports.http), "--https-port", str(box.ports.https))
    state = ("--editors", manifest.editors, "--state", str(folder_of(box) / "sites"))
    return Part(name="sites", argv=(*REFERENCE, "sites", *ports, *state), environment=UNBUFFERED)
