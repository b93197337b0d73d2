"""A snapshot as bytes: the whole tree, in a file or sent to a learner.

    file        header tree seal [digest seal [last-zxid seal]]
    stream      tree "BenWasHere"
    header      "ZKSN"  i32 version 2  i64 database -1
    tree        sessions ACLs node* str "/"
    sessions    i32 count, then each  i64 id  i32 timeout_ms
    ACLs        i32 count, then each  i64 id  vector<ACL>
    node        str path  buffer data  i64 ACL id  StatPersisted (60 bytes)
    seal        i64 Adler-32 of everything before it  str "/"
    digest      i64 zxid  i32 version 2  i64 digest
    last-zxid   i64 zxid

On disk the root has the path "", since "/" ends the tree; everywhere else in the server it is b"/". The two
translations are here and nowhere else. Node data stays in wire form (length and bytes, ffffffff for null),
and so do ACLs and stats: what reads them will send them.

Pure: a source in, chunks of bytes out, and chunks of bytes in, sections out.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import Final, Protocol
from zlib import adler32

import attrs
from librt.strings import BytesWriter, write_i32_be, write_i64_be

from persistence.errors import CorruptSnapshot

Session = tuple[int, int]  # id, timeout in ms
Acl = tuple[int, bytes]  # id, wire form of vector<ACL>
Node = tuple[bytes, bytes, int, bytes]  # path, data in wire form, ACL id, StatPersisted

FILE_HEADER = b"ZKSN" + Struct(">iq").pack(2, -1)
TREE_END = b"\0\0\0\1/"
STREAM_SIGNATURE = b"\0\0\0\x0aBenWasHere"
DIGEST_VERSION = 2

# A slice takes 0.1 ms to encode, compiled half of that: so long the event loop may be held up.
SLICE_NODES_MAX: Final = 64
SLICE_BYTES_MAX: Final = 64 << 10
SLICE_SESSIONS_MAX: Final = 1000
FIELD_BYTES_MAX: Final = 256 << 20  # far above any jute.maxbuffer in use: a larger length is not a length

_i32: Final = Struct(">i")
_i64: Final = Struct(">q")
_u64: Final = Struct(">Q")
_session: Final = Struct(">qi")
_node_tail: Final = Struct(">q60s")
_digest: Final = Struct(">qiQ")
_SEAL_BYTES = 13
_TRAILERS_BYTES_MAX = 4096
_UINT64_MASK = (1 << 64) - 1


class SnapshotSource(Protocol):
    """What a snapshot is taken of. It may change between any two calls, and between any two nodes.

    That is safe because replaying the log from the snapshot's zxid on brings every node to where it must be.
    """

    def last_zxid(self) -> int:
        """The last transaction applied in full when the snapshot was begun."""
        ...

    def snapshot_sessions(self) -> list[Session]: ...

    def snapshot_acls(self) -> list[Acl]: ...

    def snapshot_nodes(self) -> Iterator[Node]:
        """Every node that was there at `last_zxid` and still is, lazily; the root b"/" first, a parent always
        before its children."""
        ...

    def snapshot_digest(self) -> tuple[int, int]:
        """A zxid and the tree's digest just after it; (0, 0) if unknown."""
        ...


def encode_sessions(sessions: Iterable[Session]) -> bytes:
    return b"".join([_session.pack(*session) for session in sessions])


def encode_acls(acls: Iterable[Acl]) -> bytes:
    return b"".join([_i64.pack(acl_id) + wire for acl_id, wire in acls])


def acl_chunks(acls: Sequence[Acl]) -> Iterator[bytes]:
    """The ACLs, in chunks bounded as those of nodes are."""
    chunk: list[Acl] = []
    chunk_bytes = 0
    for acl in acls:
        chunk.append(acl)
        chunk_bytes += len(acl[1])
        if len(chunk) == SLICE_NODES_MAX or chunk_bytes >= SLICE_BYTES_MAX:
            yield encode_acls(chunk)
            chunk, chunk_bytes = [], 0
    if chunk:
        yield encode_acls(chunk)


def node_chunks(nodes: Iterable[Node]) -> Iterator[bytes]:
    """The nodes, in chunks bounded in number and in bytes (but for a single large node)."""
    chunk, count = BytesWriter(), 0
    for path, data, acl_id, stat in nodes:
        name = path if path != b"/" else b""
        write_i32_be(chunk, len(name))
        chunk.write(name)
        chunk.write(data)
        write_i64_be(chunk, acl_id)
        chunk.write(stat)
        count += 1
        if count == SLICE_NODES_MAX or len(chunk) >= SLICE_BYTES_MAX:
            yield chunk.getvalue()
            chunk, count = BytesWriter(), 0
    yield chunk.getvalue()


def tree_chunks(source: SnapshotSource) -> Iterator[bytes]:
    """The tree section, in slices that are each quick to make."""
    sessions = source.snapshot_sessions()
    yield _i32.pack(len(sessions))
    for start in range(0, len(sessions), SLICE_SESSIONS_MAX):
        yield encode_sessions(sessions[start : start + SLICE_SESSIONS_MAX])
    acls = source.snapshot_acls()
    yield _i32.pack(len(acls))
    yield from acl_chunks(acls)
    yield from node_chunks(source.snapshot_nodes())
    yield TREE_END


def stream_chunks(source: SnapshotSource) -> Iterator[bytes]:
    """What a leader sends after SNAP."""
    yield from tree_chunks(source)
    yield STREAM_SIGNATURE


def file_chunks(source: SnapshotSource, *, with_digest: bool, with_last_zxid: bool) -> Iterator[bytes]:
    """A whole snapshot file, before compression.

    The last-zxid trailer goes in only behind a digest: without one, a reader that expects digests takes it
    for a broken digest and refuses the file.
    """
    checksum = 1
    for chunk in chain([FILE_HEADER], tree_chunks(source)):
        checksum = adler32(chunk, checksum)
        yield chunk
    end = _seal(checksum)
    if with_digest:
        zxid, digest = source.snapshot_digest()
        end += _digest.pack(zxid, DIGEST_VERSION, digest & _UINT64_MASK)
        end += _seal(adler32(end, checksum))
        if with_last_zxid:
            end += _i64.pack(source.last_zxid())
            end += _seal(adler32(end, checksum))
    yield end


def _seal(checksum: int) -> bytes:
    return _u64.pack(checksum) + TREE_END


class TreeDecoder:
    """Reads the tree section from bytes that come in chunks cut anywhere.

    `sessions` and `acls` are complete once `has_acls`, which is before the first node is handed out. `rest`
    is None until the end of the tree, then what came behind it.
    """

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.acls: list[Acl] = []
        self.has_acls = False
        self.rest: bytes | None = None
        self._sessions_wanted: int | None = None
        self._acls_wanted: int | None = None
        self._buffer = b""

    def feed(self, chunk: bytes) -> list[Node]:
        """The nodes that this chunk completes."""
        assert self.rest is None, "the tree has ended"
        self._buffer = self._buffer + chunk if self._buffer else chunk
        nodes: list[Node] = []
        if self._read_sessions() and self._read_acls():
            nodes = self._read_nodes()
        return nodes

    def _read_sessions(self) -> bool:
        """Take the sessions that have come in full. Are there all of them?"""
        if self._sessions_wanted is None:
            if len(self._buffer) < 4:
                return False
            self._sessions_wanted = self._take_count()
        missing = self._sessions_wanted - len(self.sessions)
        end = min(missing, len(self._buffer) // _session.size) * _session.size
        self.sessions += _session.iter_unpack(self._buffer[:end])
        self._buffer = self._buffer[end:]
        return len(self.sessions) == self._sessions_wanted

    def _read_acls(self) -> bool:
        if self._acls_wanted is None:
            if len(self._buffer) < 4:
                return False
            self._acls_wanted = self._take_count()
        start = 0
        while len(self.acls) < self._acls_wanted:
            end = _acl_end(self._buffer, start)
            if end is None:
                break
            self.acls.append((_i64.unpack_from(self._buffer, start)[0], self._buffer[start + 8 : end]))
            start = end
        self._buffer = self._buffer[start:]
        self.has_acls = len(self.acls) == self._acls_wanted
        return self.has_acls

    def _read_nodes(self) -> list[Node]:
        """About 1 us a node: a chunk that ends inside one shows by an unpack that fails."""
        buffer = self._buffer
        unpack_length, unpack_tail = _i32.unpack_from, _node_tail.unpack_from
        nodes: list[Node] = []
        append = nodes.append
        start = 0
        try:
            while True:
                (path_length,) = unpack_length(buffer, start)
                data_start = start + 4 + path_length
                if path_length < 2 or path_length > FIELD_BYTES_MAX:
                    if path_length == 1 and len(buffer) > start + 4:
                        self._end_tree(start)
                        return nodes
                    if path_length not in (0, 1):
                        raise CorruptSnapshot(f"a path of {path_length} bytes")
                (data_length,) = unpack_length(buffer, data_start)
                tail_start = data_start + 4
                if data_length > 0:
                    tail_start += data_length
                if data_length < -1 or data_length > FIELD_BYTES_MAX:
                    raise CorruptSnapshot(f"a node with {data_length} bytes of data")
                acl_id, stat = unpack_tail(buffer, tail_start)
                append((buffer[start + 4 : data_start] or b"/", buffer[data_start:tail_start], acl_id, stat))
                start = tail_start + 68
        except struct.error:
            self._buffer = buffer[start:]
        return nodes

    def _end_tree(self, start: int) -> None:
        end = start + len(TREE_END)
        if self._buffer[start:end] != TREE_END:
            raise CorruptSnapshot("a path of one byte that is not the end mark")
        self.rest = self._buffer[end:]
        self._buffer = b""

    def _take_count(self) -> int:
        (count,) = _i32.unpack_from(self._buffer)
        if count < 0:
            raise CorruptSnapshot(f"a count of {count}")
        self._buffer = self._buffer[4:]
        return int(count)


def _acl_end(buffer: bytes, start: int) -> int | None:
    """Where the entry of the ACL map that starts at `start` ends, or None if it is not all there."""
    try:
        (count,) = _i32.unpack_from(buffer, start + 8)
        end = start + 12
        for _ in range(count):
            end += 4
            for _ in ("scheme", "id"):
                (length,) = _i32.unpack_from(buffer, end)
                if length > FIELD_BYTES_MAX:
                    raise CorruptSnapshot(f"an ACL with a name of {length} bytes")
                end += 4 + max(length, 0)
    except struct.error:
        return None
    return end if end <= len(buffer) else None


@attrs.frozen
class Trailers:
    """What follows the tree in a file. Each part is missing in files of older or other servers."""

    digest: tuple[int, int] | None = None  # zxid, and the digest (unsigned) of the tree just after it
    last_zxid: int | None = None


class FileDecoder:
    """Reads a whole snapshot file, already decompressed, never holding more than a few chunks of it.

    Call in this order: `sessions`, `acls`, `nodes` to its end, `trailers`. Nothing read may be trusted before
    `trailers` has returned: only then are the checksums verified.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._tree = TreeDecoder()
        self._first_nodes: list[Node] = []
        self._checksum = 1

    def sessions(self) -> list[Session]:
        self._read_header()
        while not self._tree.has_acls:
            self._first_nodes = self._feed_tree(self._next_chunk())
        return self._tree.sessions

    def acls(self) -> list[Acl]:
        return self._tree.acls

    def nodes(self) -> Iterator[Node]:
        return chain.from_iterable(self._node_lists())

    def trailers(self) -> Trailers:
        rest = self._tree.rest
        assert rest is not None
        for chunk in self._chunks:
            if len(rest) < _TRAILERS_BYTES_MAX:
                rest += chunk
        return read_trailers(rest, self._checksum)

    def _read_header(self) -> None:
        head = b""
        while len(head) < len(FILE_HEADER):
            head += self._next_chunk()
        if head[:8] != FILE_HEADER[:8]:
            raise CorruptSnapshot(f"not a snapshot: it starts with {head[:8].hex()}")
        self._checksum = adler32(head[: len(FILE_HEADER)])
        self._first_nodes = self._feed_tree(head[len(FILE_HEADER) :])

    def _node_lists(self) -> Iterator[list[Node]]:
        yield self._first_nodes
        while self._tree.rest is None:
            yield self._feed_tree(self._next_chunk())

    def _feed_tree(self, chunk: bytes) -> list[Node]:
        nodes = self._tree.feed(chunk)
        # The end mark was not all there before this chunk, so whatever lies behind it came with this chunk.
        behind = len(self._tree.rest) if self._tree.rest is not None else 0
        self._checksum = adler32(chunk[: len(chunk) - behind], self._checksum)
        return nodes

    def _next_chunk(self) -> bytes:
        chunk = next(self._chunks, None)
        if chunk is None:
            raise CorruptSnapshot("the file ends too early")
        return chunk


def read_trailers(rest: bytes, checksum: int) -> Trailers:
    """Verify the seals behind the tree and take what they protect.

    Either trailer may be missing at the end of the file. Bytes behind the last one known are another
    version's business.
    """
    at = _check_seal(rest, 0, checksum)
    if at == len(rest):
        return Trailers()
    if len(rest) - at == _i64.size + _SEAL_BYTES:  # as a server with digests switched off writes it
        return Trailers(last_zxid=_read_last_zxid(rest, at, checksum))
    digest, at = _read_digest(rest, at)
    at = _check_seal(rest, at, checksum)
    if at == len(rest):
        return Trailers(digest)
    return Trailers(digest, _read_last_zxid(rest, at, checksum))


def _read_digest(rest: bytes, at: int) -> tuple[tuple[int, int] | None, int]:
    try:
        zxid, version, digest = _digest.unpack_from(rest, at)
    except struct.error:
        raise CorruptSnapshot("the digest behind the tree is cut off") from None
    if version >= DIGEST_VERSION:
        return ((zxid, digest) if version == DIGEST_VERSION else None), at + _digest.size
    (length,) = _i32.unpack_from(rest, at + 12)  # an older digest is text, and no longer computed
    return None, at + 16 + max(length, 0)


def _read_last_zxid(rest: bytes, at: int, checksum: int) -> int:
    if len(rest) < at + _i64.size:
        raise CorruptSnapshot("the last zxid behind the tree is cut off")
    _check_seal(rest, at + _i64.size, checksum)
    return int(_i64.unpack_from(rest, at)[0])


def _check_seal(rest: bytes, at: int, checksum: int) -> int:
    """Check the seal at `at`, which covers the tree and the rest up to there; return where it ends."""
    end = at + _SEAL_BYTES
    if rest[at:end] != _seal(adler32(rest[:at], checksum)):
        raise CorruptSnapshot("a checksum is wrong or cut off")
    return end
