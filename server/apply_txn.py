"""A transaction applied to the tree gives the body of its reply; watches fire on the way.

Applying never fails. While the log is replayed over a snapshot that was taken under load, a transaction may
meet its own effect (NodeExists, NoNode): that is expected there and changes only what the rules below say.
Held by tests/server/test_apply_txn.py::test_replaying_a_suffix_twice_changes_nothing.

A transaction of many operations, or the end of a session with many ephemerals, is applied in slices
(`LongApplication`). Between two of them the tree keeps what readers may see: the state before
(`DataTree.before`). Whoever drives it calls `finish` when the change may be seen.
"""

from contextlib import suppress
from struct import Struct
from typing import Final

from librt.strings import BytesWriter, write_i32_be

from jute.errors import NodeExists, NoNode, RuntimeInconsistency, SessionMoved, ZkError
from server.changes import Change
from server.data_tree import CREATES_MAX, STAT_BYTES, DataTree
from server.paths import parent_of
from server.slices import CODEC_STEPS, ENTRY_STEPS, OPERATION_STEPS, depth_steps
from server.txns import (
    CHECK,
    CLOSE_SESSION,
    CREATE,
    CREATE2,
    CREATE_SESSION,
    CREATES,
    DATA_CHANGES,
    DELETES,
    ERROR,
    MULTI,
    RECONFIG,
    SET_ACL,
    SET_DATA,
    Args,
    Txn,
    TxnReader,
)

_MULTI_HEADER: Final = Struct(">i?i")
_MULTI_ERROR: Final = Struct(">i?ii")
_NOWHERE: Final = -1
_INSTALLABLE: Final = CREATES | DELETES | {SET_DATA}
_MULTI_END: Final = _MULTI_HEADER.pack(-1, True, -1)


def apply_txn(tree: DataTree, txn: Txn) -> tuple[int, bytes]:
    """Change the tree; returns the error code and the body of the reply to whoever asked."""
    err, body, type_ = 0, b"", txn.type
    try:
        if type_ == MULTI:
            body = _apply_multi(tree, txn)
        elif type_ == ERROR:
            err = txn.args[0]
        elif txn.changes and _is_installable(tree, type_, txn.changes):
            body = _install(tree, type_, txn.changes)
        else:
            body = _apply_one(tree, type_, txn.args, txn)
    except ZkError as failure:
        err = failure.code
    if txn.zxid > tree.last_zxid:  # after the change: a snapshot named by this zxid must contain it
        tree.last_zxid = txn.zxid
    return err, body


class LongApplication:
    """A transaction that is applied in slices: taken apart first, if it is not yet, then applied.

    Once `is_whole`, `finish` makes `err` and `body`, and the change visible.
    """

    __slots__ = (
        "_at",
        "_failed_at",
        "_members",
        "_members_count",
        "_reader",
        "_results",
        "_tree",
        "body",
        "err",
        "is_whole",
        "txn",
    )

    def __init__(self, tree: DataTree, txn: Txn) -> None:
        self._tree = tree
        self.txn = txn
        self.err = 0
        self.body = b""
        self.is_whole = False
        self._at = 0
        self._failed_at = _NOWHERE  # which operation of a multi failed when it was prepared
        self._results: list[bytes] = []
        self._members: list[Args] = []
        self._members_count = 0
        self._reader: TxnReader | None = None
        if txn.args is None:
            self._reader = TxnReader.of(txn)
            self._members_count = self._reader.begin_list(txn.type)
        else:
            self._begin()
        tree.begin_long_change()

    def _begin(self) -> None:
        """The transaction is in pieces: what is there to be done?"""
        txn, tree = self.txn, self._tree
        if txn.type == CLOSE_SESSION:
            tree.session_timeouts_ms.pop(txn.session, None)
            owned = tree.ephemerals.get(txn.session, {})
            if txn.args[0] is None:
                self._members = list(owned)
            else:
                self._members = list(dict.fromkeys([*txn.args[0], *owned]))
        else:
            self._members = txn.args
            for at, operation in enumerate(txn.args):
                if operation[0] == ERROR:
                    self._failed_at = at
                    break
            if self._failed_at != _NOWHERE and txn.args[self._failed_at][1][0] == SessionMoved.code:
                self.err, self._members = SessionMoved.code, []

    def go_on(self, steps_max: int) -> int:
        """Do some of it; returns the steps it took."""
        steps = 0
        if self._reader is not None:
            steps = self._take_apart(self._reader, steps_max)
        if self._reader is None and steps < steps_max:
            self._tree.begin_batch()
            steps += self._apply(steps_max - steps)
            self._tree.end_batch()
            self.is_whole = self._at == len(self._members)
        return steps

    def _take_apart(self, reader: TxnReader, steps_max: int) -> int:
        txn, steps, entries_before = self.txn, 0, reader.acl_entries
        while steps < steps_max and len(self._members) < self._members_count:
            self._members.append(reader.next_member(txn.type, txn.session))
            steps += CODEC_STEPS + ENTRY_STEPS * (reader.acl_entries - entries_before)
            entries_before = reader.acl_entries
        if len(self._members) >= self._members_count:
            self._reader = None
            members, self._members = self._members, []
            if txn.type == MULTI:
                txn.args = members
            else:
                txn.args = (members if self._members_count >= 0 else None,)
            txn.digest = reader.digest(txn.type)
            self._begin()
        return steps

    def _apply(self, steps_max: int) -> int:
        tree, txn, members, steps = self._tree, self.txn, self._members, 0
        is_multi, watches = txn.type == MULTI, tree.triggers
        while steps < steps_max and self._at < len(members):
            member = members[self._at]
            self._at += 1
            if self._failed_at != _NOWHERE:
                self._results.append(_failed_result(member, self._failed_at < self._at - 1))
                steps += 1
            elif is_multi:
                self._results.append(_operation_result(tree, member[0], member[1], txn))
                steps += OPERATION_STEPS + depth_steps(member[1][0])
            else:
                _delete_ephemeral(tree, member, txn.zxid)
                steps += OPERATION_STEPS + depth_steps(member)
            if watches is not None:
                steps += watches.take_steps()
        return steps

    def finish(self) -> None:
        """All is applied, and all are told: from now on this is what readers see."""
        if self.txn.type == MULTI and not self.err:
            self._results.append(_MULTI_END)
            self.body = b"".join(self._results)
        self._tree.end_long_change()
        if self.txn.zxid > self._tree.last_zxid:
            self._tree.last_zxid = self.txn.zxid


def takes_long(tree: DataTree, txn: Txn, operations_max: int) -> bool:
    """Whether a transaction of a kind that may have many operations has more than so many."""
    if txn.args is None:
        return True
    if txn.type == CLOSE_SESSION:
        return len(txn.args[0] or ()) + len(tree.ephemerals.get(txn.session, ())) > operations_max
    return len(txn.args) > operations_max


def _is_installable(tree: DataTree, type_: int, changes: list[Change]) -> bool:
    """Whether what was prepared can take its place in the tree as it is.

    Not below /zookeeper, where nodes change by themselves meanwhile, and not where a count sticks at its
    maximum. While the tree keeps its own digest it computes all it is given: that is how it is checked.
    """
    return (
        type_ in _INSTALLABLE
        and not tree.tracks_digest
        and changes[-1].creates <= CREATES_MAX
        and not changes[0].path.startswith(b"/zookeeper/")
    )


def _install(tree: DataTree, type_: int, changes: list[Change]) -> bytes:
    """Apply a transaction that was prepared against this very tree: the results are there already.

    Held by tests/server/test_busy_server.py (computed, the tree is the same) and test_installing.py.
    """
    if type_ == SET_DATA:
        return tree.install_data(changes[0])[-STAT_BYTES:]
    node, parent = changes
    if type_ in CREATES:
        tree.install_node(node, parent)
        assert node.body is not None
        return _created_reply(type_, node.path, node.body)
    tree.install_deletion(node, parent)
    return b""


def _apply_one(tree: DataTree, type_: int, args: Args, txn: Txn) -> bytes:
    if type_ in DATA_CHANGES:
        path, data, version = args
        body = tree.set_data(path, data, version, txn.zxid, txn.time_ms)
        return body if type_ == RECONFIG else body[-STAT_BYTES:]
    if type_ in CREATES:
        return _apply_create(tree, type_, args, txn)
    if type_ in DELETES:
        tree.delete(args[0], txn.zxid)
    elif type_ == SET_ACL:
        path, acl, version = args
        return tree.set_acl(path, acl, version)[-STAT_BYTES:]
    elif type_ == CREATE_SESSION:
        tree.session_timeouts_ms[txn.session] = args[0]
    elif type_ == CLOSE_SESSION:
        _close_session(tree, txn)
    else:
        assert type_ == CHECK, type_
    return b""


def _apply_create(tree: DataTree, type_: int, args: Args, txn: Txn) -> bytes:
    path, data, acl, owner, parent_cversion = args
    try:
        body = tree.create(path, data, acl, owner, parent_cversion, txn.zxid, txn.time_ms)
    except NodeExists:  # replayed: the parent may have been saved before the node was
        tree.note_create(parent_of(path), parent_cversion, txn.zxid)
        raise
    return _created_reply(type_, path, body)


def _created_reply(type_: int, path: bytes, body: bytes) -> bytes:
    reply = BytesWriter()
    write_i32_be(reply, len(path))
    reply.write(path)
    if type_ != CREATE:
        reply.write(body[-STAT_BYTES:])
    return reply.getvalue()


def _close_session(tree: DataTree, txn: Txn) -> None:
    """Delete what the transaction names, then whatever else the session owns here."""
    tree.session_timeouts_ms.pop(txn.session, None)
    named, owned = txn.args[0] or (), tree.ephemerals.get(txn.session, ())
    tree.begin_batch()
    for path in dict.fromkeys([*named, *owned]):
        _delete_ephemeral(tree, path, txn.zxid)
    tree.end_batch()


def _delete_ephemeral(tree: DataTree, path: bytes, zxid: int) -> None:
    with suppress(NoNode):  # already deleted by its owner
        tree.delete(path, zxid)


def _apply_multi(tree: DataTree, txn: Txn) -> bytes:
    """All operations or none: one error among them makes every result an error."""
    if any(type_ == ERROR for type_, _ in txn.args):
        results = _failed_results(txn)
    else:
        tree.begin_batch()
        results = _operation_results(tree, txn)
        tree.end_batch()
    return b"".join(results) + _MULTI_END


def _failed_results(txn: Txn) -> list[bytes]:
    results, passed = [], False
    for operation in txn.args:
        if operation[0] == ERROR and operation[1][0] == SessionMoved.code:
            raise SessionMoved  # no operation has failed: the whole of it must not be answered here
        results.append(_failed_result(operation, passed))
        passed = passed or operation[0] == ERROR
    return results


def _failed_result(operation: tuple[int, Args], passed: bool) -> bytes:
    """The result of an operation of a failed multi: `passed` if the one that failed comes before it."""
    type_, args = operation
    code = args[0] if type_ == ERROR else RuntimeInconsistency.code if passed else 0
    return _MULTI_ERROR.pack(-1, False, code, code)


def _operation_results(tree: DataTree, txn: Txn) -> list[bytes]:
    return [_operation_result(tree, type_, args, txn) for type_, args in txn.args]


def _operation_result(tree: DataTree, type_: int, args: Args, txn: Txn) -> bytes:
    try:
        body = _apply_one(tree, type_, args, txn)
    except ZkError as failure:
        return _MULTI_ERROR.pack(-1, False, failure.code, failure.code)
    shown = CREATE2 if type_ in CREATES and type_ != CREATE else type_
    return _MULTI_HEADER.pack(shown, False, 0) + body
