"""The tree as persistence sees it: saved to snapshots, restored from them, brought up to date from the log.

While restoring, digests are checked: every transaction carries the digest of the tree it leads to, and a
snapshot the digest of some moment during its writing. A mismatch means that this tree is not the one that
was written; like the original we say so and go on, because refusing to serve would help nobody.
"""

from collections.abc import Iterable, Iterator

import structlog

from jute.zxid import format_zxid
from server.apply_txn import apply_txn
from server.data_tree import DataTree
from server.txns import decode_txn

log = structlog.get_logger()

_MASK64 = 0xFFFFFFFFFFFFFFFF


class StoredTree:
    """Meets persistence.recovery.Restorable and persistence.snapshots.SnapshotSource for a DataTree."""

    def __init__(self, tree: DataTree, *, digests: bool = True) -> None:
        self.tree = tree
        self.digest_mismatches = 0
        self._digests = digests
        self._snapshot_digest: tuple[int, int] | None = None  # zxid and digest to be met on the way

    # -- restoring

    def reset(self) -> None:
        self.tree.reset()
        self.tree.tracks_digest = self._digests
        self._snapshot_digest = None

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
        self.tree.last_zxid = zxid
        self._meet_snapshot_digest(zxid)

    def replay(self, payload: bytes) -> None:
        txn = decode_txn(payload)
        apply_txn(self.tree, txn)
        if self._digests:
            if self._snapshot_digest is not None:
                self._meet_snapshot_digest(txn.zxid)
            elif txn.digest is not None and txn.digest & _MASK64 != self.tree.digest:
                self._mismatch(txn.zxid, txn.digest & _MASK64)

    def _meet_snapshot_digest(self, zxid: int) -> None:
        """Until the moment the snapshot's digest was taken, the tree is a mixture that no digest
        describes."""
        if self._snapshot_digest is None or zxid < self._snapshot_digest[0]:
            return
        (due, digest), self._snapshot_digest = self._snapshot_digest, None
        if zxid == due and digest != self.tree.digest:
            self._mismatch(zxid, digest)

    def _mismatch(self, zxid: int, written: int) -> None:
        self.digest_mismatches += 1
        if self.digest_mismatches == 1:
            log.error(
                "digest_mismatch",
                zxid=format_zxid(zxid),
                written=f"{written:x}",
                computed=f"{self.tree.digest:x}",
            )

    # -- saving

    def last_zxid(self) -> int:
        return self.tree.last_zxid

    def snapshot_sessions(self) -> list[tuple[int, int]]:
        return self.tree.snapshot_sessions()

    def snapshot_acls(self) -> list[tuple[int, bytes]]:
        return self.tree.snapshot_acls()

    def snapshot_nodes(self) -> Iterator[tuple[bytes, bytes, int, bytes]]:
        return self.tree.snapshot_nodes()

    def snapshot_digest(self) -> tuple[int, int]:
        return self.tree.snapshot_digest()
