from __future__ import annotations

import hashlib
from pathlib import Path

from workers.evidence import EvidenceStore


def test_evidence_is_kept_under_its_hash_until_its_own_attempt_is_dropped(tmp_path: Path) -> None:
    store = EvidenceStore(folder=tmp_path / "evidence")
    sha256 = store.keep(1, b"the same picture")
    assert sha256 == hashlib.sha256(b"the same picture").hexdigest() == store.keep(2, b"the same picture")
    store.drop(1)
    assert store.read(1, sha256) is None
    assert store.read(2, sha256) == b"the same picture"


def test_what_belongs_to_no_kept_record_is_removed(tmp_path: Path) -> None:
    store = EvidenceStore(folder=tmp_path / "evidence")
    store.keep_only([])
    hashes = [store.keep(attempt, b"data") for attempt in (1, 2, 3)]
    store.keep_only([2])
    assert [store.read(attempt, hashes[0]) for attempt in (1, 2, 3)] == [None, b"data", None]
