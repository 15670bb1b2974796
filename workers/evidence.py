"""Evidence on the box: a folder per attempt, in it files named by the SHA-256 of their content."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceStore:
    """Kept until the attempt's record is acknowledged. Attempts share no file, so that dropping one harms none."""

    folder: Path

    def keep(self, attempt: int, data: bytes) -> str:
        """The data is on disk; its hash."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self._path(attempt, sha256)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        return sha256

    def read(self, attempt: int, sha256: str) -> bytes | None:
        """The data, or None when it is not here."""
        try:
            return self._path(attempt, sha256).read_bytes()
        except FileNotFoundError:
            return None

    def drop(self, attempt: int) -> None:
        """The attempt's evidence is gone."""
        shutil.rmtree(self.folder / str(attempt), ignore_errors=True)

    def keep_only(self, attempts: Iterable[int]) -> None:
        """Evidence of any other attempt is gone: it belongs to runs that died without a record."""
        kept = {str(attempt) for attempt in attempts}
        for folder in self.folder.glob("*"):
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def _path(self, attempt: int, sha256: str) -> Path:
        return self.folder / str(attempt) / sha256
