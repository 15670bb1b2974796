"""The revision of the reference stack: a hash over its own source."""

import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parent
_LEFT_OUT = {"__pycache__", "node_modules"}


def read_revision(package: Path = PACKAGE) -> str:
    """``reference-`` and the first 12 hex digits of SHA-256 over every file's path and bytes."""
    digest = hashlib.sha256()
    for path in sorted(_files(package), key=lambda item: item.relative_to(package).as_posix()):
        name = path.relative_to(package).as_posix().encode()
        content = path.read_bytes()
        digest.update(b"%d:%s%d:" % (len(name), name, len(content)))
        digest.update(content)
    return f"reference-{digest.hexdigest()[:12]}"


def _files(package: Path) -> list[Path]:
    return [
        path
        for path in package.rglob("*")
        if path.is_file() and not _LEFT_OUT.intersection(path.relative_to(package).parts)
    ]
