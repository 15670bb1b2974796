"""Evidence in pieces that fit a message. Apart from publishing, so that reading needs no Celery."""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

from broker.queues import MAX_MESSAGE_BYTES

# base64 makes 4 bytes of 3, and the envelope takes some
_CHUNK_BYTES = MAX_MESSAGE_BYTES // 4 * 3 - 4096


def split_evidence(data: bytes) -> Iterator[bytes]:
    """The data compressed, in pieces that fit a message; at least one piece."""
    packed = zstandard.ZstdCompressor().compress(data)
    for start in range(0, len(packed), _CHUNK_BYTES):
        yield packed[start : start + _CHUNK_BYTES]


def join_evidence(chunks: list[bytes]) -> bytes:
    """The plain data of all chunks in order. Raises ValueError when they are no compressed data of ours."""
    try:
        return zstandard.ZstdDecompressor().decompress(b"".join(chunks))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
