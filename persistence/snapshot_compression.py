"""Packing and unpacking a snapshot as a stream, in the two formats Apache knows.

gz is one gzip member. snappy is the framing of the snappy-java library: a 16-byte header, then blocks of
i32 length and raw snappy data. Checksums of a snapshot are over the unpacked bytes.

cramjam is imported only when a snappy snapshot is met: few servers ever see one.
"""

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct
from types import ModuleType
from typing import Protocol

from persistence.errors import CorruptSnapshot, DataDirError
from persistence.file_names import Compression

GZIP_MAGIC = b"\x1f\x8b"
SNAPPY_MAGIC = b"\x82SNAPPY\0"

_SNAPPY_HEADER = SNAPPY_MAGIC + Struct(">ii").pack(1, 1)
_SNAPPY_BLOCK_BYTES = 32 << 10
_BLOCK_BYTES_MAX = 256 << 20
_UNPACKED_PIECE_BYTES = 1 << 20
_GZIP_WBITS = 16 + zlib.MAX_WBITS
_i32 = Struct(">i")


class Compressor(Protocol):
    def pack(self, data: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


class NoCompressor:
    def pack(self, data: bytes) -> bytes:
        return data

    def finish(self) -> bytes:
        return b""


class GzipCompressor:
    def __init__(self) -> None:
        self._stream = zlib.compressobj(wbits=_GZIP_WBITS)

    def pack(self, data: bytes) -> bytes:
        return self._stream.compress(data)

    def finish(self) -> bytes:
        return self._stream.flush()


class SnappyCompressor:
    def __init__(self) -> None:
        self._snappy = _cramjam().snappy
        self._waiting = b""
        self._head = _SNAPPY_HEADER

    def pack(self, data: bytes) -> bytes:
        data = self._waiting + data
        end = len(data) - len(data) % _SNAPPY_BLOCK_BYTES
        self._waiting = data[end:]
        return self._blocks(data[:end])

    def finish(self) -> bytes:
        return self._blocks(self._waiting)

    def _blocks(self, data: bytes) -> bytes:
        packed, self._head = [self._head], b""
        for start in range(0, len(data), _SNAPPY_BLOCK_BYTES):
            block = bytes(self._snappy.compress_raw(data[start : start + _SNAPPY_BLOCK_BYTES]))
            packed += (_i32.pack(len(block)), block)
        return b"".join(packed)


def compressor(compression: Compression) -> Compressor:
    match compression:
        case Compression.GZIP:
            return GzipCompressor()
        case Compression.SNAPPY:
            return SnappyCompressor()
        case Compression.NONE:
            return NoCompressor()


def unpacked(chunks: Iterable[bytes], compression: Compression) -> Iterator[bytes]:
    """The bytes of the snapshot, in chunks of bounded size."""
    match compression:
        case Compression.GZIP:
            return _gunzip(chunks)
        case Compression.SNAPPY:
            return _unsnappy(chunks)
        case Compression.NONE:
            return iter(chunks)


def _gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits=_GZIP_WBITS)
    for chunk in chunks:
        while chunk and not stream.eof:
            try:
                piece = stream.decompress(chunk, _UNPACKED_PIECE_BYTES)
            except zlib.error as error:
                raise CorruptSnapshot(f"not readable as gzip: {error}") from error
            chunk = stream.unconsumed_tail
            if piece:
                yield piece
    if not stream.eof:
        raise CorruptSnapshot("the gzip stream ends too early")


def _unsnappy(chunks: Iterable[bytes]) -> Iterator[bytes]:
    cramjam = _cramjam()
    chunks = iter(chunks)
    buffer = b""
    for chunk in chunks:
        buffer += chunk
        if len(buffer) >= len(_SNAPPY_HEADER):
            break
    if buffer[: len(SNAPPY_MAGIC)] != SNAPPY_MAGIC:
        raise CorruptSnapshot("not a snappy stream")
    buffer = buffer[len(_SNAPPY_HEADER) :]
    while True:
        while len(buffer) < 4 or len(buffer) < 4 + _block_size(buffer):
            more = next(chunks, None)
            if more is None:
                if buffer:
                    raise CorruptSnapshot("the snappy stream ends too early")
                return
            buffer += more
        end = 4 + _block_size(buffer)
        try:
            yield bytes(cramjam.snappy.decompress_raw(buffer[4:end]))
        except cramjam.DecompressionError as error:
            raise CorruptSnapshot(f"not readable as snappy: {error}") from error
        buffer = buffer[end:]


def _cramjam() -> ModuleType:
    try:
        import cramjam
    except ImportError as error:
        raise DataDirError(
            "snappy snapshots need the cramjam library", remedy="pip install 'triokeeper[snappy]'"
        ) from error
    return cramjam


def _block_size(buffer: bytes) -> int:
    (size,) = _i32.unpack_from(buffer)
    if not 0 < size <= _BLOCK_BYTES_MAX:
        raise CorruptSnapshot(f"a snappy block of {size} bytes")
    return int(size)
