"""The driver of the reference stack: the product's stand-in, on the box's block of ports."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from broker.errors import StackError
from broker.types import Mode
from workers.stack.parts import REPOSITORY, Part
from workers.stack.ports import answers
from workers.stack.renderer_part import describe_renderer
from workers.stack.standins import REFERENCE, UNBUFFERED, describe_router, describe_sites
from workers.stack.supervised import Build, SupervisedDriver

_REVISION_TIMEOUT_S = 60.0


class ReferenceDriver(SupervisedDriver):
    """Boots the product's stand-in. Its backend waits for no other part, so all start at once."""

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """One."""
        return (("router", "backend", "sites"),)

    def describe_part(self, name: str, *, dashboard_id: str) -> Part:
        """Each part but the renderer is a command of `infra.reference`."""
        if name == "router":
            return describe_router(self.box)
        if name == "sites":
            return describe_sites(self.box, self.manifest)
        if name == "backend":
            return self._describe_backend()
        token = self.data / "auth.token"
        return describe_renderer(self.box, self.manifest, token=token, dashboard_id=dashboard_id, ready=self.ready_file)

    def is_healthy(self, name: str) -> bool:
        """Whether the part has answered just now."""
        ports = self.box.ports
        if name == "router":
            return answers(ports.router, "/v1/models")
        if name == "sites":
            return answers(ports.http, "/healthz")
        if name == "backend":
            return self.backend_answers()
        return self.ready_file.exists() and self.renderer_answers()

    def own_ports(self) -> Mapping[str, int]:
        """All that it listens on."""
        ports = self.box.ports
        return {"router": ports.router, "http": ports.http, "https": ports.https, "backend": ports.backend}

    def read_build(self) -> Build:
        """The revision that the stand-in tells of itself."""
        try:
            said = subprocess.run(
                [*REFERENCE, "revision"],
                cwd=REPOSITORY,
                capture_output=True,
                text=True,
                timeout=_REVISION_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StackError("the reference stack did not tell its revision in time") from error
        if said.returncode or not said.stdout.strip():
            raise StackError(f"the reference stack did not tell its revision: {said.stderr.strip()}")
        return Build(revision=said.stdout.strip())

    def backend_words(self) -> tuple[str, ...]:
        """What tells it from the other commands of the stand-in."""
        return ("-m", "infra.reference", "backend")

    @property
    def backend_folder(self) -> str:
        """The repository."""
        return str(REPOSITORY)

    @property
    def truth_file(self) -> str | None:
        """The stand-in tells what it did."""
        return str(self.data / "truth.jsonl")

    def _describe_backend(self) -> Part:
        ports, reference = self.box.ports, self.box.reference
        # said for both: the shell that boots may still have the variable of an older harness
        dry = {"OSW_SENDSCRIPT_DRYRUN": "1" if self.mode is Mode.DRY else "0"}
        environment = {
            **UNBUFFERED,
            **dry,
            "OPENSWARM_PORT": str(ports.backend),
            "OPENSWARM_DATA_ROOT": str(self.data),
            "REFERENCE_ROUTER_URL": f"http://127.0.0.1:{ports.router}",
            "REFERENCE_SITES_URL": f"http://127.0.0.1:{ports.http}",
            "REFERENCE_FAULTS": reference.faults,
            "REFERENCE_NATURES": reference.natures,
            "REFERENCE_SEED": str(reference.seed),
            "REFERENCE_LEASH_SCALE": str(reference.leash_scale),
        }
        return Part(name="backend", argv=(*REFERENCE, "backend"), environment=environment, restart_line="BACKEND")
