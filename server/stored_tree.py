"""The tree as persistence sees it: saved to snapshots, restored from them, brought up to date from the log.

While restoring, digests are checked: every transaction carries the digest of the tree it leads to, and a
snapshot the digest of some moment during its writing. A mismatch means that this tree is not the one that
was written; we say so (again and again, but ever more rarely) and count it. What follows from it is decided
elsewhere: a learner asks for a snapshot (quorum/learner.py); a leader and a standalone server go on like the
original, because refusing to serve would help nobody.

Apache takes a snapshot's digest while another thread may be half-way through the next transaction, which the
snapshot then holds already. So a digest that is missed counts only if that transaction's is missed as well.

A learner is restored from its leader's stream, while that goes on changing, and no digest comes with it: its
tree is a mixture until it has met the digest of some transaction for the first time, or `settled` says that
all that got into the stream has been applied. So a wrong tree is noticed with the next transaction.
"""

from collections.abc import Iterable, Iterator

from eventlog import log
from jute.zxid import format_zxid
from persistence.errors import CorruptSnapshot
from persistence.snapshot_format import STREAM_SIGNATURE, TreeDecoder
from quorum.committed_log import CommittedLog
from server.apply_txn import apply_txn
from server.data_tree import DataTree
from server.txns import Txn, decode_txn

_MASK64 = 0xFFFFFFFFFFFFFFFF


class SnapshotView:
    """The tree as one snapshot sees it (persistence.snapshots.SnapshotSource): as of the zxid at which it was
    begun, and with its own numbers for ACLs, so that several snapshots can be taken at a time."""

    def __init__(self, tree: DataTree) -> None:
        self.tree = tree
        self._zxid = tree.last_zxid
        self._acls: list[tuple[int, bytes]] = []

    def last_zxid(self) -> int:
        return self._zxid

    def snapshot_sessions(self) -> list[tuple[int, int]]:
        return self.tree.snapshot_sessions()

    def snapshot_acls(self) -> list[tuple[int, bytes]]:
        self._acls = self.tree.snapshot_acls()
        return self._acls

    def snapshot_nodes(self) -> Iterator[tuple[bytes, bytes, int, bytes]]:
        return self.tree.snapshot_nodes(self._acls, self._zxid)

    def snapshot_digest(self) -> tuple[int, int]:
        return self.tree.snapshot_digest()


class StoredTree:
    """Meets persistence.recovery.Restorable for a DataTree; every transaction replayed is remembered."""

    def __init__(
        self, tree: DataTree, *, digests: bool = True, committed_log: CommittedLog | None = None
    ) -> None:
        self.tree = tree
        self.digest_mismatches = 0
        self._digests = digests
        self._committed_log = committed_log
        self._is_mixture = False
        self._snapshot_digest: tuple[int, int] | None = None  # zxid and digest to be met on the way
        self._missed: tuple[int, int] | None = None  # the same, not met: the next transaction decides

    # -- restoring

    def reset(self) -> None:
        self.tree.reset()
        self._begin_at(0)
        self.tree.tracks_digest = self._digests
        self._snapshot_digest = None
        self._missed = None
        self._is_mixture = False

    def restore_sessions(self, sessions: Iterable[tuple[int, int]]) -> None:
        self.tree.restore_sessions(sessions)

    def restore_acls(self, acls: Iterable[tuple[int, bytes]]) -> None:
        self.tree.restore_acls(acls)

    def restore_nodes(self, nodes: Iterable[tuple[bytes, bytes, int, bytes]]) -> None:
        self.tree.restore_nodes(nodes)

    def restore_digest(self, zxid: int, digest: int) -> None:
        if self._digests and zxid:
            self._snapshot_digest = (zxid, digest & _MASK64)

    def restored(self, zxid: int) -> None:
        self._begin_at(zxid)
        self._meet_snapshot_digest(zxid)

    def replay(self, payload: bytes) -> None:
        txn = decode_txn(payload)
        apply_txn(self.tree, txn)
        if self._committed_log is not None:
            self._committed_log.append(txn.zxid, payload)
        self.check_digest(txn)

    def check_digest(self, txn: Txn) -> None:
        """Compare the tree, which this transaction has just changed, with what it says the tree is now."""
        if not self._digests:
            return
        if self._snapshot_digest is not None:
            self._meet_snapshot_digest(txn.zxid)
        elif txn.digest is not None:
            if txn.digest & _MASK64 == self.tree.digest:
                self._is_mixture = False
                self._missed = None
            elif not self._is_mixture:
                self.caught_up()
                self._mismatch(txn.zxid, txn.digest & _MASK64)

    def caught_up(self) -> None:
        """There is no further transaction: a snapshot's digest that was missed was wrong."""
        if self._missed is not None:
            (zxid, digest), self._missed = self._missed, None
            self._mismatch(zxid, digest)

    def _meet_snapshot_digest(self, zxid: int) -> None:
        """Until the moment the snapshot's digest was taken, the tree is a mixture that no digest
        describes."""
        if self._snapshot_digest is None or zxid < self._snapshot_digest[0]:
            return
        (due, digest), self._snapshot_digest = self._snapshot_digest, None
        if zxid == due and digest != self.tree.digest:
            self._missed = (due, digest)

    def _mismatch(self, zxid: int, written: int) -> None:
        self.digest_mismatches += 1
        if self.digest_mismatches.bit_count() == 1:  # 1, 2, 4, 8 ...: each may be followed by many
            log.error(
                "digest_mismatch",
                zxid=format_zxid(zxid),
                written=f"{written:x}",
                computed=f"{self.tree.digest:x}",
                count=self.digest_mismatches,
            )

    def begin_stream(self) -> "StreamedTree":
        """Empty the tree, to be filled from a leader's stream."""
        self.reset()
        return StreamedTree(self)

    def end_stream(self, zxid: int) -> None:
        self._begin_at(zxid)
        self._is_mixture = True

    def settled(self) -> None:
        """Every transaction that the stream may have held in part has been applied."""
        self._is_mixture = False

    def _begin_at(self, zxid: int) -> None:
        self.tree.last_zxid = zxid
        if self._committed_log is not None:
            self._committed_log.begin(zxid)

    # -- saving

    def view(self) -> SnapshotView:
        """What one of several snapshots is taken of; it begins here."""
        return SnapshotView(self.tree)


class StreamedTree:
    """A tree being filled from a stream that comes in pieces (quorum.replica.Restoring)."""

    def __init__(self, stored: StoredTree) -> None:
        self._stored = stored
        self._tree = stored.tree
        self._decoder = TreeDecoder()
        self._has_begun = False
        self._rest: bytes | None = None  # of the stream, behind the tree

    def feed(self, chunk: bytes) -> bytes | None:
        """Take a piece; once the stream is complete, whatever of the piece lies behind it."""
        if self._rest is None:
            nodes = self._decoder.feed(chunk)
            if self._decoder.has_acls:
                self._begin_once()
                self._tree.restore_more_nodes(nodes)
            self._rest = self._decoder.rest
        else:
            self._rest += chunk
        if self._rest is None or len(self._rest) < len(STREAM_SIGNATURE):
            return None
        if not self._rest.startswith(STREAM_SIGNATURE):
            raise CorruptSnapshot("the leader's stream does not end with its signature")
        return self._rest[len(STREAM_SIGNATURE) :]

    def _begin_once(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._tree.restore_sessions(self._decoder.sessions)
            self._tree.restore_acls(self._decoder.acls)
            self._tree.begin_nodes()

    def finish(self, zxid: int) -> None:
        """All of it is there, and this is its zxid."""
        self._tree.end_nodes()
        self._stored.end_stream(zxid)
