"""Evidence in pieces that fit a message. Apart from publishing, so that reading needs no Celery."""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

from broker.queues import MAX_MESSAGE_BYTES

# base64 makes 4 bytes of 3, and the envelope takes some
_CHUNK_BYTES = MAX_MESSAGE_BYTES // 4 * 3 - 4096
# The largest piece of evidence, unpacked. Zeros shrink 30,000 times: without a limit one message of a box
# would take all the memory of whoever unpacks it.
MAX_EVIDENCE_BYTES = 256 * 1024 * 1024


def split_evidence(data: bytes) -> Iterator[bytes]:
    """The data compressed, in pieces that fit a message; at least one piece."""
    packed = zstandard.ZstdCompressor().compress(data)
    for start in range(0, len(packed), _CHUNK_BYTES):
        yield packed[start : start + _CHUNK_BYTES]


def join_evidence(chunks: list[bytes]) -> bytes:
    """The plain data of all chunks in order.

    Raises ValueError when they are no compressed data of ours, or more than MAX_EVIDENCE_BYTES of it; then
    nothing has been unpacked.
    """
    packed = b"".join(chunks)
    try:
        size = zstandard.frame_content_size(packed)
        if size > MAX_EVIDENCE_BYTES:
            raise ValueError(f"evidence of {size} bytes, {MAX_EVIDENCE_BYTES} may be")
        # it never writes beyond the size that the frame itself names, and refuses a frame that names none
        return zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
