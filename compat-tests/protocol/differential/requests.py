"""Random requests of every type, valid and not."""

from collections.abc import Callable
from typing import Final

import attrs

from protocol.differential.steps import Request
from protocol.differential.values import LIMITS, NAMES, QUOTA, STATS, WIDE_ID, Values
from support.opcodes import READS, Op
from support.raw_client import (
    Text,
    wire_buffer,
    wire_byte,
    wire_int,
    wire_long,
    wire_string,
    wire_vector,
)
from support.super_user import SUPER

_TTL_MAX: Final = 2**40 - 1
_FRAME_BYTES_MAX: Final = 0xFFFFF
_TTL_FLAGS: Final = (5, 6)
_UNLISTED_OPS: Final = (0, -1, 10, int(Op.CHECK), 23, 99, 108, -2, -9, -12, -100, 200, 2**31 - 1, -(2**31))
_READ_BYTES: Final = (0, 0, 1, 1, 1, 2, 255)
_CREDENTIALS: Final = (
    b"u1:p1",
    b"u2:p2",
    b"u3",
    b":",
    b"",
    b"u:p:q",
    b"\xc3\xa4:p",
    b"\xff:\xfe",
)
_DELETABLE_CONTAINERS: Final = (b"/k", b"/k", b"/k2", b"/k/k", b"/zz", b"/a/zz", b"/zz/zz")
_UNDELETABLE: Final = (
    b"/",
    b"/zookeeper",
    QUOTA,
    b"/zookeeper/config",
    b"k",
    b"",
    b"/a/e",
    b"/e",
    b"/k\x00",
    b"/\xff",
)
_MULTI_END: Final = wire_int(-1) + wire_byte(1) + wire_int(-1)


@attrs.frozen
class Draft:
    """A request without an xid."""

    op: int
    body: bytes
    text: str
    subject: bytes | None = None


@attrs.define
class Requests:
    """Draws requests."""

    values: Values
    has_ttl_nodes: bool
    quota_share: float
    is_alone: bool = True  # the server: it is no member of an ensemble
    _xid: int = attrs.field(default=0, init=False)

    def draw(self) -> Request:
        """Any request that leaves the connection open, as far as one can know."""
        self.values.is_careful = self.values.chance(0.2)
        draft = self._weighted(self._makers())
        return self._numbered(draft if self.values.is_careful else self._spoilt(draft))

    def draw_fatal(self) -> Request:
        """A request that the server is expected to answer by hanging up."""
        return self._numbered(
            self._weighted([(3, self._unlisted), (3, self._failing_auth), (1, self._bad_sasl)])
        )

    def numbered(self, op: int, body: bytes, text: str) -> Request:
        return self._numbered(Draft(op, body, text))

    def _numbered(self, draft: Draft) -> Request:
        self._xid += 1
        return Request(self._xid, draft.op, draft.body, draft.text, draft.subject)

    def _weighted(self, makers: list[tuple[float, Callable[[], Draft]]]) -> Draft:
        weights, functions = zip(*makers, strict=True)
        (make,) = self.values.rng.choices(functions, weights)
        draft: Draft = make()
        return draft

    def _makers(self) -> list[tuple[float, Callable[[], Draft]]]:
        return [
            (14, self._create),
            (3, self._create_sequential),
            (4, self._create_ephemeral),
            (3, self._create_container),
            (3 if self.has_ttl_nodes else 1, self._create_ttl),
            (20 * self.quota_share, self._create_quota),
            (20 * self.quota_share, self._rewrite_quota),
            (8, self._delete),
            (2, self._delete_container),
            (10, self._set_data),
            (5, self._set_acl),
            (5, self._exists),
            (6, self._get_data),
            (4, self._get_acl),
            (4, self._get_children),
            (4, self._get_children2),
            (2, self._get_all_children_number),
            (2, self._get_ephemerals),
            (2, self._sync),
            (1, self._ping),
            (10, self._multi),
            (3, self._multi_read),
            (1 if self.is_alone else 0, self._reconfig),  # an ensemble shall stay as it is
            (5, self._add_watch),
            (5, self._check_or_remove_watches),
            (2, self._set_watches),
            (2, self._set_watches2),
            (1, self._who_am_i),
            (3, self._auth),
            (1, self._sasl),
            (0.1, self._set_huge_data),
        ]

    # -- spoiling

    def _spoilt(self, draft: Draft) -> Draft:
        """Now and then a body that is cut off, too long, or has one byte changed."""
        roll = self.values.rng.random()
        if roll > 0.07 or draft.op in (Op.AUTH, Op.SASL) or len(draft.body) > _FRAME_BYTES_MAX // 2:
            return draft
        if not self.is_alone and draft.op not in READS:
            return draft  # a write that does not parse blocks all later ones in ensembles of the reference
        if roll > 0.04 and draft.body:
            size = self.values.rng.randrange(len(draft.body))
            return attrs.evolve(draft, body=draft.body[:size], text=f"{draft.text} cut to {size} bytes")
        if roll > 0.02 or not self._may_be_changed(draft):
            extra = self.values.rng.randbytes(self.values.rng.randint(1, 20))
            return attrs.evolve(draft, body=draft.body + extra, text=f"{draft.text} and {extra!r}")
        at = self.values.rng.randrange(len(draft.body))
        byte = bytes([self.values.one_of(b"\x00\x01\x2f\x7f\x80\xff")])
        changed = draft.body[:at] + byte + draft.body[at + 1 :]
        return attrs.evolve(draft, body=changed, text=f"{draft.text} with byte {at} as {byte!r}")

    def _may_be_changed(self, draft: Draft) -> bool:
        """Not where chance could make one of the inputs that the reference does not survive."""
        is_safe = (
            draft.op not in (Op.CREATE_TTL, Op.DELETE_CONTAINER, Op.SET_ACL)
            and b"zookeeper_" not in draft.body
        )
        return bool(draft.body) and is_safe and b"/k" not in draft.body

    # -- writes

    def _created(self, op: int, path: bytes | None, flags: int, ttl: int | None = None) -> Draft:
        values = self.values
        data, acl = values.data(path, is_new=True), values.acl(path)
        body = wire_string(path) + wire_buffer(data) + acl + wire_int(flags)
        text = f"{_name(op)}({path!r}, {_short(data)}, acl={acl.hex()}, flags={flags}"
        if ttl is None:
            return Draft(op, body, f"{text})", path)
        return Draft(op, body + wire_long(ttl), f"{text}, ttl={ttl})", path)

    def _create(self) -> Draft:
        values = self.values
        path = values.new_path()
        op = values.one_of((Op.CREATE, Op.CREATE, Op.CREATE2))
        return self._created(op, path, self._flags_for(path))

    def _flags_for(self, path: bytes | None) -> int:
        """What a name may be created as: see values.py."""
        name = (path or b"").rpartition(b"/")[2]
        if name.startswith(b"e"):
            return 1
        return 99 if name.startswith((b"k", b"zz")) else self.values.flags()

    def _create_sequential(self) -> Draft:
        op = self.values.one_of((Op.CREATE, Op.CREATE2))
        return self._created(op, self.values.sequential_path(), 2)

    def _create_ephemeral(self) -> Draft:
        op = self.values.one_of((Op.CREATE, Op.CREATE2))
        return self._created(op, self.values.ephemeral_path(), self.values.one_of((1, 1, 3)))

    def _create_container(self) -> Draft:
        return self._container(self.values.one_of((4, 4, 4, 0, 1, 2, 3, 5, 7)))

    def _container(self, flags: int) -> Draft:
        return self._created(Op.CREATE_CONTAINER, self.values.container_path(), flags)

    def _create_ttl(self) -> Draft:
        """With flags that mean no time to live, a negative one stops the reference."""
        values = self.values
        if values.chance(0.7):
            ttl = values.one_of((1, 1000, 3_600_000, _TTL_MAX, 0, -1, _TTL_MAX + 1, 2**63 - 1, -(2**63)))
            return self._created(Op.CREATE_TTL, values.container_path(), values.one_of(_TTL_FLAGS), ttl)
        flags = values.one_of((0, 1, 2, 3, 4, 7, -1))
        return self._created(
            Op.CREATE_TTL, values.container_path(), flags, values.one_of((0, 1, 1000, _TTL_MAX))
        )

    def _create_quota(self) -> Draft:
        return self._created(Op.CREATE, self.values.quota_path(), 0)

    def _rewrite_quota(self) -> Draft:
        path = (
            QUOTA
            + self.values.one_of((b"/a/", b"/b/", b"/a/b/"))
            + self.values.one_of((LIMITS, LIMITS, STATS))
        )
        return self._data_set(path)

    def _delete(self) -> Draft:
        path = self.values.leaf_path()
        version = self.values.version(self.values.world.versions, path)
        return Draft(Op.DELETE, wire_string(path) + wire_int(version), f"delete({path!r}, {version})", path)

    def _delete_container(self) -> Draft:
        path = self.values.one_of(_DELETABLE_CONTAINERS if self.values.chance(0.8) else (*_UNDELETABLE, None))
        return Draft(Op.DELETE_CONTAINER, wire_buffer(path), f"deleteContainer({path!r})")

    def _set_data(self) -> Draft:
        return self._data_set(self.values.path())

    def _data_set(self, path: bytes | None) -> Draft:
        data = self.values.data(path, is_new=False)
        version = self.values.version(self.values.world.versions, path)
        body = wire_string(path) + wire_buffer(data) + wire_int(version)
        return Draft(Op.SET_DATA, body, f"setData({path!r}, {_short(data)}, {version})", path)

    def _set_huge_data(self) -> Draft:
        """A frame just as large as the largest that is accepted."""
        path = self.values.plain_path()
        data = bytes(_FRAME_BYTES_MAX - 8 - 4 - len(path) - 4 - 4)
        body = wire_string(path) + wire_buffer(data) + wire_int(-1)
        return Draft(Op.SET_DATA, body, f"setData({path!r}, {_short(data)}, -1)", path)

    def _set_acl(self) -> Draft:
        path = self.values.path()
        acl, version = self.values.acl(path), self.values.version(self.values.world.acl_versions, path)
        body = wire_string(path) + acl + wire_int(version)
        return Draft(Op.SET_ACL, body, f"setACL({path!r}, {acl.hex()}, {version})", path)

    def _reconfig(self) -> Draft:
        texts: tuple[Text, ...] = (None, "", "server.1=127.0.0.1:2888:3888;2181", "x")
        joining, leaving, members = (self.values.one_of(texts) for _ in range(3))
        config_id = self.values.one_of((-1, 0, 5))
        body = wire_string(joining) + wire_string(leaving) + wire_string(members) + wire_long(config_id)
        return Draft(Op.RECONFIG, body, f"reconfig({joining!r}, {leaving!r}, {members!r}, {config_id})")

    # -- reads

    def _path_and_watch(self, op: Op) -> Draft:
        watch = self.values.one_of(_READ_BYTES)
        path = self.values.watch_path() if watch else self.values.path()
        return Draft(op, wire_string(path) + wire_byte(watch), f"{_name(op)}({path!r}, watch={watch})", path)

    def _exists(self) -> Draft:
        return self._path_and_watch(Op.EXISTS)

    def _get_data(self) -> Draft:
        return self._path_and_watch(Op.GET_DATA)

    def _get_children(self) -> Draft:
        return self._path_and_watch(Op.GET_CHILDREN)

    def _get_children2(self) -> Draft:
        return self._path_and_watch(Op.GET_CHILDREN2)

    def _path_only(self, op: Op, path: bytes | None) -> Draft:
        return Draft(op, wire_string(path), f"{_name(op)}({path!r})")

    def _get_acl(self) -> Draft:
        return self._path_only(Op.GET_ACL, self.values.path())

    def _get_all_children_number(self) -> Draft:
        return self._path_only(Op.GET_ALL_CHILDREN_NUMBER, self.values.path())

    def _get_ephemerals(self) -> Draft:
        prefixes = (None, b"", b"/", b" / ", b"\x01\t", b"/a", b"/a/e", b"/e", b"e", b"\xff", b"\xc2\xa0")
        return self._path_only(Op.GET_EPHEMERALS, self.values.one_of(prefixes))

    def _sync(self) -> Draft:
        path = self.values.odd_text() if self.values.chance(0.6) else self.values.path()
        return self._path_only(Op.SYNC, path)

    def _ping(self) -> Draft:
        return Draft(Op.PING, b"", "ping()")

    def _who_am_i(self) -> Draft:
        return Draft(Op.WHO_AM_I, b"", "whoAmI()")

    # -- watches

    def _add_watch(self) -> Draft:
        path, mode = self.values.watch_path(), self.values.one_of((0, 0, 1, 1, 1, 2, -1))
        return Draft(Op.ADD_WATCH, wire_string(path) + wire_int(mode), f"addWatch({path!r}, {mode})")

    def _check_or_remove_watches(self) -> Draft:
        op = self.values.one_of((Op.CHECK_WATCHES, Op.REMOVE_WATCHES))
        path, kind = self.values.watched_path(), self.values.one_of((1, 2, 3, 3, 4, 5, 0, 6, -1))
        return Draft(op, wire_string(path) + wire_int(kind), f"{_name(op)}({path!r}, {kind})")

    def _set_watches(self) -> Draft:
        return self._watches_set(Op.SET_WATCHES, 3)

    def _set_watches2(self) -> Draft:
        return self._watches_set(Op.SET_WATCHES2, 5)

    def _watches_set(self, op: Op, lists_count: int) -> Draft:
        values = self.values
        since = values.one_of((0, values.world.zxid, values.world.zxid // 2, -1, 2**40))
        lists = [self._watch_list() for _ in range(lists_count)]
        body = wire_long(since) + b"".join(
            wire_vector(None if paths is None else map(wire_string, paths)) for paths in lists
        )
        return Draft(op, body, f"{_name(op)}({since}, {lists})")

    def _watch_list(self) -> list[bytes | None] | None:
        if self.values.chance(0.03):
            return None
        return [self.values.path() for _ in range(self.values.one_of((0, 1, 1, 2, 3)))]

    # -- several in one

    def _multi(self) -> Draft:
        # At a learner of the reference one that does not parse takes a zxid: a known difference.
        self.values.is_careful = self.values.chance(0.5) or not self.is_alone
        count = self.values.one_of((0, 1, 2, 2, 3, 3, 4, 6))
        drafts = [self._weighted(self._multi_makers()) for _ in range(count)]
        drafts = [draft for draft in drafts if WIDE_ID not in draft.body]
        if self.values.chance(0.06) and not self.values.is_careful:
            odd = (
                self._get_data,
                self._exists,
                self._set_acl,
                self._delete_container,
                self._sync,
                self._unlisted,
            )
            drafts.insert(self.values.rng.randint(0, len(drafts)), self.values.one_of(odd)())
        return self._combined(Op.MULTI, drafts)

    def _multi_makers(self) -> list[tuple[float, Callable[[], Draft]]]:
        return [
            (6, self._create),
            (2, self._create_sequential),
            (2, self._create_ephemeral),
            (2, self._create_container_in_multi),
            (1, self._create_ttl_in_multi),
            (6 * self.quota_share, self._create_quota),
            (4, self._delete),
            (5, self._set_data),
            (4, self._check),
        ]

    def _create_container_in_multi(self) -> Draft:
        """Without the flags of an ephemeral: a known difference."""
        return self._container(
            self.values.one_of((4, 4, 4, 0, 2, 5, 7) if self.is_alone else (4, 4, 4, 0, 2))
        )

    def _create_ttl_in_multi(self) -> Draft:
        """Here a createTTL with other flags is an ordinary create, so any name will do for those."""
        if self.values.chance(0.6):
            return self._created(
                Op.CREATE_TTL, self.values.container_path(), self.values.one_of(_TTL_FLAGS), 1000
            )
        path = self.values.parent_path() + b"/" + self.values.one_of(NAMES)
        flags = self.values.one_of((0, 2, 4, 7) if self.is_alone else (0, 2, 4))
        return self._created(Op.CREATE_TTL, path, flags, self.values.one_of((-1, 0, 5)))

    def _check(self) -> Draft:
        path = self.values.path()
        version = self.values.version(self.values.world.versions, path)
        return Draft(Op.CHECK, wire_string(path) + wire_int(version), f"check({path!r}, {version})")

    def _multi_read(self) -> Draft:
        drafts = [
            self.values.one_of((self._get_data, self._get_children))()
            for _ in range(self.values.one_of((0, 1, 2, 4)))
        ]
        if self.values.chance(0.15):
            odd = (self._create, self._delete, self._check, self._set_data, self._exists, self._get_children2)
            drafts.insert(self.values.rng.randint(0, len(drafts)), self.values.one_of(odd)())
        if self.values.chance(0.05):
            drafts = [self._check() for _ in range(2)]
        return self._combined(Op.MULTI_READ, drafts)

    def _combined(self, op: Op, drafts: list[Draft]) -> Draft:
        headers = [
            wire_int(draft.op) + b"\x00" + wire_int(self.values.one_of((-1, -1, 7))) for draft in drafts
        ]
        body = b"".join(header + draft.body for header, draft in zip(headers, drafts, strict=True))
        end = _MULTI_END if self.values.chance(0.95) else wire_int(5) + b"\x02" + wire_int(0)
        return Draft(op, body + end, f"{_name(op)}({', '.join(draft.text for draft in drafts)})")

    # -- who one is

    def _auth(self) -> Draft:
        values = self.values
        if values.chance(0.1):
            return self._credentials("ip", values.one_of((None, b"", b"10.0.0.1")))
        return self._credentials("digest", SUPER if values.chance(0.15) else values.one_of(_CREDENTIALS))

    def _credentials(self, scheme: Text, data: bytes | None) -> Draft:
        kind = self.values.one_of((0, 0, 5, -1))
        return Draft(
            Op.AUTH,
            wire_int(kind) + wire_string(scheme) + wire_buffer(data),
            f"auth({kind}, {scheme!r}, {data!r})",
        )

    def _failing_auth(self) -> Draft:
        scheme = self.values.one_of(
            ("world", "auth", "super", "sasl", "x509", "none", "", None, "digest", "cut")
        )
        if scheme == "digest":
            return self._credentials(scheme, None)
        if scheme == "cut":
            body = self._credentials("digest", b"u1:p1").body
            return Draft(Op.AUTH, body[: self.values.rng.randrange(len(body))], "auth(cut short)")
        return self._credentials(scheme, b"u1:p1")

    def _sasl(self) -> Draft:
        token = self.values.one_of((b"", b"token", b"\xff" * 40))
        return Draft(Op.SASL, wire_buffer(token), f"sasl({token!r})")

    def _bad_sasl(self) -> Draft:
        return Draft(
            Op.SASL, self.values.one_of((wire_buffer(None), b"", b"\x00\x00", wire_int(9) + b"x")), "bad sasl"
        )

    def _unlisted(self) -> Draft:
        op = self.values.one_of(_UNLISTED_OPS)
        return Draft(op, self.values.rng.randbytes(self.values.rng.randint(0, 12)), f"opcode {op}")


def _name(op: int) -> str:
    head, *tail = Op(op).name.lower().split("_")
    return head + "".join(part.capitalize() for part in tail)


def _short(data: bytes | None) -> str:
    return repr(data) if data is None or len(data) <= 64 else f"{len(data)} bytes"
