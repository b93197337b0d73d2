"""A write request and the changes still in flight give a transaction.

Pure: this is where all decisions about a write are taken, once, by the server that orders writes; everyone
else only applies the result. A transaction is prepared against the state that will hold when its turn comes:
the tree plus `pending`, the changes of transactions that are prepared but not yet applied.

Invariants:
  1. Every request that gets here yields exactly one transaction and one zxid, also when it is refused: the
     error is a transaction too. (A body that cannot be decoded yields none: DecodeError.)
  2. The order of the checks is part of the protocol: which error wins is tested against the original.
  3. `digest` is what the tree's digest will be after the last transaction prepared.

What takes long, a multi of many operations or the end of a session with many ephemerals, is prepared in
slices (`LongMulti`, `LongClose`). Between two of them nothing else may be prepared, nor may anything that was
prepared be applied: the state that is prepared against must not change. That is for the pipeline to see to.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from jute.errors import (
    BadArguments,
    BadVersion,
    MarshallingError,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    ReconfigDisabled,
    RuntimeInconsistency,
    Unimplemented,
    ZkError,
)
from jute.opcodes import CreateMode, Perms
from server import paths
from server.acls import OPEN_ACL, AccessRules, AuthIds
from server.changes import FROM_TREE, Change
from server.client_sessions import Sessions
from server.data_tree import (
    CREATES_MAX,
    DataTree,
    acl_version_of,
    data_length_of,
    new_body,
    node_digest,
    pzxid_of,
    shown_owner_of,
    signed64,
    version_of,
    with_acl_version,
    with_children,
    with_data,
    wrap32,
)
from server.slices import ENTRY_STEPS, OPERATION_STEPS, depth_steps
from server.txns import (
    CHECK,
    CLOSE_SESSION,
    CONTAINER_OWNER,
    CREATE_CONTAINER,
    CREATE_SESSION,
    CREATE_TTL,
    CREATES,
    DELETE,
    DELETE_CONTAINER,
    ERROR,
    MULTI,
    RECONFIG,
    SET_ACL,
    SET_DATA,
    TTL_MASK,
    TTL_OWNER,
    LongPayload,
    Txn,
    seal,
)
from server.write_requests import MultiParser, Operation, parse_write

_EPHEMERAL: Final = frozenset(mode.value for mode in CreateMode if mode.is_ephemeral)
_SEQUENTIAL: Final = frozenset(mode.value for mode in CreateMode if mode.is_sequential)
_WITH_TTL: Final = frozenset(mode.value for mode in CreateMode if mode.is_ttl)
_FLAGS: Final = frozenset(mode.value for mode in CreateMode)


# From joining, leaving and new members, the version to start from and a zxid to a configuration's text.
NewConfig = Callable[[str | None, str | None, str | None, int, int], str]

_UNKNOWN: Final = -1  # a digest that nobody has asked for

# An `auth` entry grows to one for each id of the client, in every create of a multi: without a bound, one
# frame makes a transaction larger than any log entry can be. The original reads up to twice a frame.
_ACL_GROWTH_BYTES_MAX: Final = 512 << 10
# A longer list of ephemerals is left out, as old versions always did: whoever applies the transaction knows
# them. The original cannot read log entries that are much larger than a frame.
_FORGOTTEN_AT_ONCE: Final = 1000  # changes; few transactions have as many
_KNOWN_NODES_MAX: Final = 4096
_KNOWN_BODY_BYTES_MAX: Final = 2048  # where the tree may have a copy of its own
_LISTED_BYTES_MAX: Final = 512 << 10
_LISTED_PER_STEP: Final = 8  # ephemerals that are found and listed in the time of a step


class Preparer:
    """Turns requests into transactions, one after the other.

    While one is being prepared, `zxid` is its number, and `_session`, `_ids` and `_time_ms` say on whose
    behalf and when: arguments to everything below, kept here because passing them costs a tenth of the time.
    """

    def __init__(
        self,
        tree: DataTree,
        sessions: Sessions,
        rules: AccessRules,
        *,
        digests: bool = True,
        enforce_quota: bool = False,
        ttl_nodes: bool = False,
        lists_ephemerals: bool = True,
        reconfig_enabled: bool = False,
        new_config: NewConfig | None = None,
    ) -> None:
        self._tree = tree
        self._sessions = sessions
        self._rules = rules
        self._digests = digests
        self._enforce_quota = enforce_quota
        self._ttl_nodes = ttl_nodes
        self._lists_ephemerals = lists_ephemerals
        self._reconfig_enabled = reconfig_enabled
        self._new_config = new_config
        self.zxid = tree.last_zxid
        self.digest = tree.digest
        self.pending: dict[bytes, Change] = {}
        self._changes: list[Change] = []  # of the transaction that is being prepared
        self._to_forget: deque[Change] = deque()  # of a long transaction that is applied
        self._known: dict[bytes, Change] = {}  # nodes that were changed lately, as they are in the tree
        self._session = 0
        self._ids: AuthIds = ()
        self._time_ms = 0
        self._ephemeral_zxids: dict[int, int] = {}  # of the last ephemeral each session asked for
        self._undo: dict[bytes, Change | None] | None = None  # inside a multi: what was before it
        self._stale: list[Change] = []  # parents that this transaction has changed repeatedly
        self.acl_entries = 0  # that were looked at so far: what ACLs cost
        self.changes_looked_at = 0  # to find what a session will own when it ends

    def prepare(self, session: int, cxid: int, op: int, body: bytes, ids: AuthIds, time_ms: int) -> Txn:
        """The transaction for a client's request. Raises DecodeError, without effect, if its body is none."""
        try:
            args = parse_write(op, body)
        except MarshallingError as failure:
            return self.refuse(session, cxid, failure, time_ms)
        return self._prepare(session, cxid, op, args, ids, time_ms)

    def begin_multi(self, session: int, cxid: int, body: bytes, ids: AuthIds, time_ms: int) -> "LongMulti":
        """The same for a multi whose body is long, in slices."""
        return LongMulti(self, session, cxid, body, ids, time_ms)

    def begin_close(self, session: int, cxid: int, time_ms: int) -> "LongClose":
        """The same as close_session for a session with many ephemerals, in slices."""
        return LongClose(self, session, cxid, time_ms)

    def refuse(self, session: int, cxid: int, failure: ZkError, time_ms: int) -> Txn:
        """The transaction for a request that cannot be prepared: its failure takes a zxid too."""
        self._begin(session, (), time_ms)
        return self._error(cxid, failure)

    def create_session(self, session: int, timeout_ms: int, time_ms: int, cxid: int = 0) -> Txn:
        self._begin(session, (), time_ms)
        return self._seal(cxid, CREATE_SESSION, (timeout_ms,))

    def close_session(self, session: int, cxid: int, time_ms: int) -> Txn:
        """Close a session, asked for by its client or because its time is up."""
        self._begin(session, (), time_ms)
        owned = self._ephemerals_of(session)
        for path in owned:
            self._remove_ephemeral(path)
        return self._seal_close(session, cxid, owned)

    def _remove_ephemeral(self, path: bytes) -> None:
        """As _remove does, without a look at more of the node than has to be."""
        if self._digests:
            change = self.pending.get(path) or self._known.get(path)
            is_known = change is not None and change.digest != _UNKNOWN
            self.digest -= change.digest if change is not None and is_known else self._tree.digest_of(path)
        self._put(Change(path, self.zxid, None, 0, 0, OPEN_ACL, 0, 0))
        parent_path = paths.parent_of(path)
        self._change_children(parent_path, self._get(parent_path), -1)

    def _seal_close(self, session: int, cxid: int, owned: list[bytes]) -> Txn:
        self._sessions.mark_closing(session)
        is_listed = self._lists_ephemerals and sum(map(len, owned)) <= _LISTED_BYTES_MAX
        return self._seal(cxid, CLOSE_SESSION, (owned if is_listed else None,))

    def delete_container(self, path: bytes, time_ms: int) -> Txn:
        """The reaper's request: session 0, which no client has."""
        return self._prepare(0, 0, DELETE_CONTAINER, (path,), (), time_ms)

    def applied(self, txn: Txn) -> None:
        """A transaction is in the tree now: its changes are no longer pending, those of a long one soon."""
        if len(txn.changes) > _FORGOTTEN_AT_ONCE:
            self._to_forget.extend(txn.changes)
            return
        for change in txn.changes:
            self._forget(change)

    def forget(self, changes_max: int) -> int:
        """Forget so many changes of long transactions, if there are as many; returns how many there were.
        None while a multi is being prepared: they are what comes back if it fails."""
        if self._undo is not None:
            return 0
        count = min(changes_max, len(self._to_forget))
        for _ in range(count):
            self._forget(self._to_forget.popleft())
        return count

    @property
    def has_to_forget(self) -> bool:
        return bool(self._to_forget)

    def _forget(self, change: Change) -> None:
        """A change is in the tree. What it tells of a node is kept at hand, unless another one waits."""
        path = change.path
        if self.pending.get(path) is not change:
            return
        del self.pending[path]
        body = change.body
        if body is None or len(body) > _KNOWN_BODY_BYTES_MAX or not _is_known_by_changes(change):
            self._known.pop(path, None)
            return
        if change.acl is not OPEN_ACL:
            change.acl = self._tree.acls.get(path, OPEN_ACL)  # the same, but there once for all nodes
        if len(self._known) >= _KNOWN_NODES_MAX:
            self._known.clear()
        self._known[path] = change

    # -- from operations to transactions

    def _prepare(self, session: int, cxid: int, op: int, args: Any, ids: AuthIds, time_ms: int) -> Txn:
        self._begin(session, ids, time_ms)
        try:
            if op == SET_DATA:
                results = self._set_data(args)
            elif op == MULTI:
                results = self._multi(args)
            else:
                op, results = self._operation(op, args)
        except ZkError as failure:
            return self._error(cxid, failure)
        return self._seal(cxid, op, results)

    def _begin(self, session: int, ids: AuthIds, time_ms: int) -> None:
        self.zxid += 1
        self._changes = []
        self._session = session
        self._ids = ids
        self._time_ms = time_ms

    def _seal(self, cxid: int, type_: int, args: Any) -> Txn:
        return seal(self._unsealed(cxid, type_, args))

    def _unsealed(self, cxid: int, type_: int, args: Any) -> Txn:
        if self._stale:
            self._freshen_all()
        digest: int | None = None
        if self._digests:
            digest = self.digest = self.digest & 0xFFFFFFFFFFFFFFFF
            if digest >> 63:
                digest = signed64(digest)
        txn = Txn(self._session, cxid, self.zxid, self._time_ms, type_, args, digest)
        txn.changes = self._changes
        return txn

    def _error(self, cxid: int, failure: ZkError) -> Txn:
        return seal(Txn(self._session, cxid, self.zxid, self._time_ms, ERROR, (failure.code,), None))

    def _multi(self, operations: list[Operation]) -> list[Operation]:
        """All or nothing: at the first failure everything prepared so far is taken back."""
        done = self._begin_operations()
        for type_, args in operations:
            self._add_operation(done, type_, args)
        self._end_operations()
        return done.operations

    def _begin_operations(self) -> "_Done":
        self._undo = {}
        return _Done(self.digest)

    def _end_operations(self) -> None:
        """Of a node that was changed several times only the last change counts."""
        if self._undo is not None:
            self._changes = [self.pending[path] for path in self._undo]
            self._undo = None

    def _add_operation(self, done: "_Done", type_: int, args: Any) -> None:
        """Prepare one more operation of a multi, or note that it is not done because one before it failed.

        Raises MarshallingError, with all taken back, if not one operation failed but the request is broken.
        """
        if done.has_failed:
            done.operations.append(_NOT_DONE)
            return
        try:
            prepared = self._operation(type_, args)
            if type_ in CREATES:
                done.growth_bytes += len(prepared[1][2]) - len(args[2])
                if done.growth_bytes > _ACL_GROWTH_BYTES_MAX:
                    raise MarshallingError("the ACLs of the multi are too large")
            done.operations.append(prepared)
        except ZkError as failure:
            self._take_back_all(done)
            if isinstance(failure, MarshallingError):
                raise
            done.has_failed = True
            done.operations.append((ERROR, (failure.code,)))

    def _take_back_all(self, done: "_Done") -> None:
        if self._undo is not None:
            self._take_back(self._undo, done.digest_before)
            self._undo = None

    def _take_back(self, undo: dict[bytes, Change | None], digest: int) -> None:
        self._stale.clear()
        for path, before in undo.items():
            if before is None:
                del self.pending[path]
            else:
                self.pending[path] = before
        self.digest = digest

    def _operation(self, type_: int, args: Any) -> Operation:
        if type_ == SET_DATA:
            return type_, self._set_data(args)
        if type_ in CREATES:
            return type_, self._create(type_, args)
        if type_ == DELETE:
            return type_, self._delete(args)
        if type_ == CHECK:
            return type_, self._check(args)
        if type_ == SET_ACL:
            return type_, self._set_acl(args)
        if type_ == DELETE_CONTAINER:
            return type_, self._delete_container(args)
        assert type_ == RECONFIG, type_
        return type_, self._reconfig(args)

    def _set_data(self, args: Any) -> Any:
        path, data, expected = args
        self._sessions.check(self._session)
        node = self._get_to_replace(path)
        if node.acl is not OPEN_ACL:
            self._permit(node.acl, Perms.WRITE)
        assert node.body is not None
        if self._enforce_quota:
            self._tree.quotas.check(self._tree, path, len(data) - 4 - data_length_of(node.body), 0)
        version = version_of(node.body)
        if expected != -1 and expected != version:
            raise BadVersion
        version = version + 1 if version != 0x7FFFFFFF else -0x80000000
        self._change(path, node, with_data(node.body, data, version, self.zxid, self._time_ms))
        return (path, data, version)

    def _set_acl(self, args: Any) -> Any:
        path, acl, expected = args
        self._sessions.check(self._session)
        paths.validate(path or b"")
        acl = self._fix_up(acl)
        node = self._get_to_replace(path)
        self._permit(node.acl, Perms.ADMIN)
        assert node.body is not None
        version = _next_version(acl_version_of(node.body), expected)
        self._change(path, node, with_acl_version(node.body, version)).acl = acl
        return (path, acl, version)

    def _check(self, args: Any) -> Any:
        path, expected = args
        self._sessions.check(self._session)
        change = self.pending.get(path or b"")
        body = self._tree.bodies.get(path or b"") if change is None else change.body
        if body is None:
            self._existing(path)
            raise NoNode
        acl = self._tree.acls.get(path, OPEN_ACL) if change is None else change.acl
        if acl is not OPEN_ACL:
            self._permit(acl, Perms.READ)
        return (path, _next_version(version_of(body), expected))

    def _delete(self, args: Any) -> Any:
        path, expected = args
        self._sessions.check(self._session)
        parent_path = _deletable_parent(path)
        parent = self._get(parent_path)
        if parent.acl is not OPEN_ACL:
            self._permit(parent.acl, Perms.DELETE)
        node = self._get(path)
        assert node.body is not None
        _next_version(version_of(node.body), expected)
        if node.children:
            raise NotEmpty
        self._remove(path, node, parent_path, parent)
        return (path,)

    def _delete_container(self, args: Any) -> Any:
        """Meant for the reaper. A client may ask too, but only for containers and where it may delete:
        the original lets anyone delete any empty node this way."""
        (path,) = args
        parent_path = _deletable_parent(path)
        node = self._get(path)
        if node.children:
            raise NotEmpty
        if node.owner == 0 or self._tree.is_ephemeral_owner(node.owner):
            raise BadVersion
        parent = self._get(parent_path)
        if self._session:
            self._permit(parent.acl, Perms.DELETE)
        self._remove(path, node, parent_path, parent)
        return (path,)

    def _reconfig(self, args: Any) -> Any:
        """Whoever leads the ensemble knows what may be asked for; a server on its own has nobody to ask."""
        joining, leaving, new_members, from_version = args
        if not self._reconfig_enabled:
            raise ReconfigDisabled
        self._sessions.check(self._session)
        if self._new_config is None:
            raise Unimplemented
        text = self._new_config(
            _text(joining), _text(leaving), _text(new_members), from_version, self.zxid
        ).encode()
        node = self._get_to_replace(paths.CONFIG)
        self._permit(node.acl, Perms.WRITE)
        assert node.body is not None
        data = len(text).to_bytes(4, "big") + text
        self._change(paths.CONFIG, node, with_data(node.body, data, -1, self.zxid, self._time_ms))
        return (paths.CONFIG, data, -1)

    def _permit(self, acl: bytes, wanted: int) -> None:
        """NoAuth, or nothing."""
        if acl != OPEN_ACL:
            entries_before = self._rules.entries_read
            try:
                self._rules.check(acl, wanted, self._ids)
            finally:
                self.acl_entries += self._rules.entries_read - entries_before

    def _fix_up(self, acl: bytes) -> bytes:
        """The ACL to store for one that a client sent."""
        if acl == OPEN_ACL:
            return OPEN_ACL
        entries_before = self._rules.entries_read
        try:
            return self._rules.fix_up(acl, self._ids)
        finally:
            self.acl_entries += self._rules.entries_read - entries_before

    def _create(self, type_: int, args: Any) -> Any:
        path, data, acl, flags, ttl = args
        self._check_flags(type_, flags, ttl)
        self._check_session(flags)
        if path is None:
            raise MarshallingError("a path is missing")
        parent_path = paths.split_for_write(path)
        acl = self._fix_up(acl)
        parent = self._get(parent_path)
        if parent.acl is not OPEN_ACL:
            self._permit(parent.acl, Perms.CREATE)
        creates = parent.creates
        if flags in _SEQUENTIAL:
            path += b"%010d" % wrap32(creates)
        self._check_new_node(path, parent, data)
        owner = _owner(type_, flags, ttl, self._session)
        self._add(path, data, acl, owner)
        if owner == self._session:
            self._ephemeral_zxids[owner] = self.zxid
        self._change_children(parent_path, parent, 1)
        return (path, data, acl, owner, wrap32(creates + 1))

    def _check_session(self, flags: int) -> None:
        """An ephemeral belongs to a session that all servers know."""
        if flags in _EPHEMERAL:
            self._sessions.check_global(self._session)
        else:
            self._sessions.check(self._session)

    def _check_flags(self, type_: int, flags: int, ttl: int) -> None:
        if flags not in _FLAGS:
            raise BadArguments("these flags make no create mode")
        has_ttl = flags in _WITH_TTL
        if has_ttl and not self._ttl_nodes:
            raise Unimplemented
        if has_ttl != (type_ == CREATE_TTL) or (has_ttl and not 0 < ttl <= TTL_MASK):
            raise BadArguments("a time to live goes with its own create modes, and has to be positive")

    def _check_new_node(self, path: bytes, parent: Change, data: bytes) -> None:
        paths.validate(path)
        existing = self.pending.get(path)
        if existing.body is not None if existing else path in self._tree.bodies:
            raise NodeExists
        if parent.owner and self._tree.is_ephemeral_owner(parent.owner):
            raise NoChildrenForEphemerals
        if self._enforce_quota:
            self._tree.quotas.check(self._tree, path, len(data) - 4, 1)

    # -- nodes as they will be

    def _existing(self, path: bytes | None) -> Change:
        """The node a request names. If there is none, a bad or missing name is the greater fault."""
        try:
            return self._get(path or b"")
        except NoNode:
            paths.validate(path or b"")
            raise

    def _get(self, path: bytes) -> Change:
        change = self.pending.get(path)
        if change is None:
            change = self._known.get(path)
            return self._from_tree(path) if change is None else change
        if change.body is None:
            raise NoNode
        return change

    def _get_to_replace(self, path: bytes | None) -> Change:
        """The node a request names, with a body that is in step: it is about to get another."""
        node = self._existing(path)
        if node.is_stale:
            self._freshen(node)
        return node

    def _from_tree(self, path: bytes) -> Change:
        tree = self._tree
        body = tree.bodies.get(path)
        if body is None:
            raise NoNode
        kids = tree.children.get(path)
        creates, hidden_owner = tree.creates.get(path, 0), tree.owners.get(path, 0)
        acl = tree.acls.get(path, OPEN_ACL)
        owner = hidden_owner or shown_owner_of(body)
        return Change(path, FROM_TREE, body, creates, len(kids) if kids else 0, acl, owner, _UNKNOWN)

    def _change(self, path: bytes, node: Change, body: bytes) -> Change:
        """Let a node have this body from now on; returns what may be changed further."""
        if node.digest == _UNKNOWN and self._digests:
            node.digest = self._tree.digest_of(path)
        if node.zxid != FROM_TREE:  # an earlier change: it belongs to its own transaction
            node = Change(path, 0, None, node.creates, node.children, node.acl, node.owner, node.digest)
        node.zxid = self.zxid
        node.body = body
        if self._digests:
            self._digest_anew(node, body)
        self._put(node)
        return node

    def _digest_anew(self, node: Change, body: bytes) -> None:
        hidden = self._hidden(node.owner) if node.owner < 0 else 0
        creates = node.creates
        digest = node_digest(node.path, body, creates if creates < CREATES_MAX else CREATES_MAX, hidden)
        self.digest += digest - node.digest
        node.digest = digest

    def _add(self, path: bytes, data: bytes, acl: bytes, owner: int) -> None:
        hidden = self._hidden(owner)
        body = new_body(data, self.zxid, self._time_ms, 0 if hidden else owner)
        digest = node_digest(path, body, 0, hidden) if self._digests else 0
        self._put(Change(path, self.zxid, body, 0, 0, acl, owner, digest))
        self.digest += digest

    def _change_children(self, path: bytes, node: Change, more: int) -> None:
        """The parent of a created (more 1) or deleted (-1) node."""
        assert node.body is not None
        creates, children = node.creates + (more > 0), node.children + more
        if node.zxid == self.zxid and creates <= CREATES_MAX:  # not for the first time in this transaction
            node.creates, node.children = creates, children
            if not node.is_stale:
                node.is_stale = True
                self._stale.append(node)
            return
        if node.is_stale:
            self._freshen(node)
        if creates <= CREATES_MAX:
            body = with_children(node.body, creates, children, self.zxid)
        else:
            pzxid = self.zxid if more < 0 else pzxid_of(node.body)
            body = with_children(node.body, CREATES_MAX, children, pzxid)
        if node.zxid != FROM_TREE:
            node = Change(path, FROM_TREE, None, creates, children, node.acl, node.owner, node.digest)
        node.creates, node.children = creates, children
        self._change(path, node, body)

    def _freshen(self, node: Change) -> None:
        """Bring a parent's body and digest in step with its children."""
        node.is_stale = False
        assert node.body is not None
        node.body = with_children(node.body, node.creates, node.children, self.zxid)
        if self._digests:
            self._digest_anew(node, node.body)

    def _freshen_all(self) -> None:
        stale, self._stale = self._stale, []
        for node in stale:
            if node.is_stale:
                self._freshen(node)

    def _remove(self, path: bytes, node: Change, parent_path: bytes, parent: Change) -> None:
        if self._digests:
            self.digest -= self._tree.digest_of(path) if node.digest == _UNKNOWN else node.digest
        node.is_stale = False
        self._put(Change(path, self.zxid, None, 0, 0, OPEN_ACL, 0, 0))
        self._change_children(parent_path, parent, -1)

    def _hidden(self, owner: int) -> int:
        """The stored owner of a node whose Stat shows none."""
        return owner if owner and not self._tree.is_ephemeral_owner(owner) else 0

    def _put(self, change: Change) -> None:
        path = change.path
        if self._undo is None:
            self._changes.append(change)
        else:
            self._undo.setdefault(path, self.pending.get(path))
        self.pending[path] = change

    def _ephemerals_of(self, session: int) -> list[bytes]:
        """What the session will own when its close is applied. Other owners than sessions have no end."""
        if not self._tree.is_ephemeral_owner(session):
            return []
        pending, in_tree = self.pending, self._tree.ephemerals.get(session, {})
        if len(pending) < len(in_tree):  # most often it is much shorter, and the other is copied in no time
            owned = in_tree.copy()
            for path in pending:
                if path in in_tree and not _is_owned(pending[path], session):
                    del owned[path]
        else:
            owned = {
                path: None
                for path in in_tree
                if (change := pending.get(path)) is None or _is_owned(change, session)
            }
        self.changes_looked_at = 0
        if self._ephemeral_zxids.pop(session, 0) > self._tree.last_zxid:  # else all of them are in the tree
            self.changes_looked_at = len(pending)
            owned |= {path: None for path, change in pending.items() if _is_owned(change, session)}
        return list(owned)


_NOT_DONE: Final[Operation] = (ERROR, (RuntimeInconsistency.code,))


class _Done:
    """The operations of a multi that are prepared, and what was before them."""

    __slots__ = ("digest_before", "growth_bytes", "has_failed", "operations")

    def __init__(self, digest_before: int) -> None:
        self.operations: list[Operation] = []
        self.has_failed = False
        self.growth_bytes = 0
        self.digest_before = digest_before


class LongPreparation:
    """A transaction that is prepared in slices: `txn` is there once `go_on` has done the rest.

    Until then nothing else may be asked of whoever prepares.
    """

    def __init__(self, session: int, cxid: int) -> None:
        self.session = session
        self._cxid = cxid
        self.txn: Txn | None = None

    def go_on(self, steps_max: int) -> int:
        """Do some of it; returns the steps it took. Raises DecodeError, with all taken back, if the request
        makes no transaction at all."""
        raise NotImplementedError


class LongClose(LongPreparation):
    """The end of a session with many ephemerals."""

    def __init__(self, preparer: Preparer, session: int, cxid: int, time_ms: int) -> None:
        super().__init__(session, cxid)
        self._preparer = preparer
        preparer._begin(session, (), time_ms)
        self._owned = preparer._ephemerals_of(session)
        self._at = 0
        looked_at = len(self._owned) + preparer.changes_looked_at
        self._listing_steps = looked_at // _LISTED_PER_STEP  # that are done and not counted yet

    def go_on(self, steps_max: int) -> int:
        steps, owned, self._listing_steps = self._listing_steps, self._owned, 0
        while steps < steps_max and self._at < len(owned):
            path = owned[self._at]
            self._preparer._remove_ephemeral(path)
            self._at += 1
            steps += OPERATION_STEPS + depth_steps(path)
        if self._at == len(owned):
            self.txn = self._preparer._seal_close(self.session, self._cxid, owned)
        return steps


class LongMulti(LongPreparation):
    """A multi of many operations: taken apart, prepared and put into its payload, each in slices.

    What cannot be taken apart is refused before anything is prepared, as in a short one. In between somebody
    may look at the operations: `when_taken_apart`.
    """

    def __init__(
        self, preparer: Preparer, session: int, cxid: int, body: bytes, ids: AuthIds, time_ms: int
    ) -> None:
        super().__init__(session, cxid)
        self._preparer = preparer
        self._parser: MultiParser | None = MultiParser(body)
        self._for_whom = (session, ids, time_ms)
        self._operations: list[Operation] = []
        self._done: _Done | None = None
        self._payload: LongPayload | None = None
        self.when_taken_apart: Callable[[list[Operation]], object] | None = None

    def go_on(self, steps_max: int) -> int:
        steps = 0
        if self._parser is not None:
            steps += self._take_apart(self._parser, steps_max)
        if self._done is not None and self._payload is None and steps < steps_max:
            steps += self._prepare(self._done, steps_max - steps)
        if self._payload is not None and self.txn is None and steps < steps_max:
            steps += self._payload.go_on(steps_max - steps)
            if self._payload.is_whole:
                self.txn = self._payload.txn
        return steps

    def _take_apart(self, parser: MultiParser, steps_max: int) -> int:
        preparer, steps = self._preparer, 0
        try:
            steps = parser.go_on(steps_max)
        except MarshallingError as failure:
            session, _, time_ms = self._for_whom
            self._parser = None
            self.txn = preparer.refuse(session, self._cxid, failure, time_ms)
            return steps
        if parser.is_done:
            self._parser = None
            self._operations = parser.operations
            if self.when_taken_apart is not None:
                self.when_taken_apart(self._operations)
            preparer._begin(*self._for_whom)
            self._done = preparer._begin_operations()
        return steps

    def _prepare(self, done: _Done, steps_max: int) -> int:
        preparer, operations, steps = self._preparer, self._operations, 0
        while steps < steps_max and len(done.operations) < len(operations):
            type_, args = operations[len(done.operations)]
            entries_before = preparer.acl_entries
            try:
                preparer._add_operation(done, type_, args)
            except MarshallingError as failure:
                self.txn = preparer._error(self._cxid, failure)
                self._done = None
                return steps
            steps += ENTRY_STEPS * (preparer.acl_entries - entries_before)
            steps += 1 if done.has_failed else OPERATION_STEPS + depth_steps(args[0])
        if len(done.operations) == len(operations):
            preparer._end_operations()
            self._payload = LongPayload(preparer._unsealed(self._cxid, MULTI, done.operations))
        return steps


def _is_known_by_changes(change: Change) -> bool:
    """Whether nothing but transactions changes the node, and nothing is stored otherwise than it is pending:
    quota statistics and the members' list change by themselves, and counts stick at their maximum."""
    return change.creates <= CREATES_MAX and not change.path.startswith(b"/zookeeper/")


def _is_owned(change: Change, session: int) -> bool:
    return change.body is not None and change.owner == session


def _text(wire: bytes | None) -> str | None:
    return None if wire is None else wire.decode("utf-8", "replace")


def _owner(type_: int, flags: int, ttl: int, session: int) -> int:
    if type_ == CREATE_CONTAINER:
        return CONTAINER_OWNER
    if type_ == CREATE_TTL:
        return TTL_OWNER | ttl
    return session if flags in _EPHEMERAL else 0


def _next_version(current: int, expected: int) -> int:
    if expected != -1 and expected != current:
        raise BadVersion
    return wrap32(current + 1)


def _deletable_parent(path: bytes | None) -> bytes:
    if path is None:
        raise MarshallingError("a path is missing")
    parent = paths.split_for_write(path)
    if path in paths.UNDELETABLE:
        raise BadArguments("this node cannot be deleted")
    return parent
