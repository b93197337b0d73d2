"""Agreement with Kazoo, the other end of the wire: its requests are our records, our replies its values."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from kazoo.exceptions import BadVersionError
from kazoo.protocol import serialization as kz
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL
from kazoo.security import Id as KazooId

from jute import client_records as ours
from jute.errors import BadVersion
from jute.opcodes import OpCode
from jute.record import decode, encode
from tests.strategies import bmp_text, records, signed

# Kazoo writes an empty string as null, so none is drawn.
text = bmp_text(min_size=1)
buffer = st.none() | st.binary()
int32, int64 = signed(32), signed(64)
kazoo_acl = st.builds(ACL, int32, st.builds(KazooId, text, text))
acls = st.lists(kazoo_acl, max_size=3)

REQUESTS: list[tuple[type, type[object], list[SearchStrategy[Any]]]] = [
    (kz.Create, ours.CreateRequest, [text, buffer, acls, int32]),
    (kz.Create2, ours.CreateRequest, [text, buffer, acls, int32]),
    (kz.Delete, ours.DeleteRequest, [text, int32]),
    (kz.Exists, ours.ExistsRequest, [text, st.booleans()]),
    (kz.GetData, ours.GetDataRequest, [text, st.booleans()]),
    (kz.SetData, ours.SetDataRequest, [text, buffer, int32]),
    (kz.GetACL, ours.GetAclRequest, [text]),
    (kz.SetACL, ours.SetAclRequest, [text, acls, int32]),
    (kz.GetChildren, ours.GetChildrenRequest, [text, st.booleans()]),
    (kz.GetChildren2, ours.GetChildren2Request, [text, st.booleans()]),
    (kz.Sync, ours.SyncRequest, [text]),
    (kz.CheckVersion, ours.CheckVersionRequest, [text, int32]),
    (kz.Reconfig, ours.ReconfigRequest, [st.none() | text, st.none() | text, st.none() | text, int64]),
    (kz.SASL, ours.GetSaslRequest, [st.binary()]),
]


def as_ours(value: Any) -> Any:
    """Kazoo's ACLs as our records; anything else as it is."""
    if isinstance(value, list):
        return tuple(ours.Acl(acl.perms, ours.Id(acl.id.scheme, acl.id.id)) for acl in value)
    return value


@pytest.mark.parametrize(
    ("theirs", "cls", "fields"), REQUESTS, ids=[theirs.__name__ for theirs, _, _ in REQUESTS]
)
@settings(max_examples=25)
@given(data=st.data())
def test_requests(
    theirs: type, cls: type[object], fields: list[SearchStrategy[Any]], data: st.DataObject
) -> None:
    """What Kazoo sends decodes to the values it was given, and encodes to the bytes it sent."""
    values = data.draw(st.tuples(*fields))
    sent = bytes(theirs(*values).serialize())
    rec, end = decode(cls, sent)
    assert end == len(sent)
    assert rec == cls(*map(as_ours, values))
    assert encode(rec) == sent


@given(int64, int32, int64, st.none() | st.binary(), st.booleans())
def test_connect(zxid: int, timeout_ms: int, session_id: int, passwd: bytes | None, read_only: bool) -> None:
    """Behind the record, one byte is left: readOnly."""
    sent = bytes(kz.Connect(0, zxid, timeout_ms, session_id, passwd, read_only).serialize())
    rec, end = decode(ours.ConnectRequest, sent)
    assert rec == ours.ConnectRequest(0, zxid, timeout_ms, session_id, passwd)
    assert sent[end:] == bytes([read_only])
    assert encode(rec) + sent[end:] == sent


@given(int32, int64, st.binary(), st.booleans())
def test_connected(timeout_ms: int, session_id: int, passwd: bytes, read_only: bool) -> None:
    """Kazoo reads our answer, with the byte or without."""
    answer = encode(ours.ConnectResponse(0, timeout_ms, session_id, passwd))
    read, _ = kz.Connect.deserialize(answer + bytes([read_only]), 0)
    assert read == kz.Connect(0, 0, timeout_ms, session_id, passwd, read_only)
    read, _ = kz.Connect.deserialize(answer, 0)
    assert read == kz.Connect(0, 0, timeout_ms, session_id, passwd, False)


@given(text, text)
def test_auth(scheme: str, auth: str) -> None:
    """Kazoo writes the credentials as a string, and the wire cannot tell that from a buffer."""
    sent = kz.Auth(0, scheme, auth).serialize()
    rec, end = decode(ours.AuthPacket, sent)
    assert end == len(sent)
    assert rec == ours.AuthPacket(0, scheme, auth.encode())
    assert encode(rec) == sent


@given(text, buffer, acls, int32)
def test_multi(path: str, data: bytes | None, acl: list[Any], version: int) -> None:
    """A transaction is its parts, each behind its header, and a header that says done."""
    operations = [kz.Create(path, data, acl, 0), kz.CheckVersion(path, version), kz.Delete(path, version)]
    sent = bytes(kz.Transaction(operations).serialize())
    parts = [
        ours.MultiHeader(OpCode.CREATE, False, -1),
        ours.CreateRequest(path, data, as_ours(acl), 0),
        ours.MultiHeader(OpCode.CHECK, False, -1),
        ours.CheckVersionRequest(path, version),
        ours.MultiHeader(OpCode.DELETE, False, -1),
        ours.DeleteRequest(path, version),
        ours.MultiHeader(-1, True, -1),
    ]
    assert b"".join(map(encode, parts)) == sent
    at = 0
    for part in parts:
        rec, at = decode(type(part), sent, at)
        assert rec == part
    assert at == len(sent)


@given(records(ours.Stat))
def test_multi_results(stat: ours.Stat) -> None:
    """Kazoo reads the results of each kind."""
    parts = [
        ours.MultiHeader(OpCode.CREATE, False, 0),
        ours.CreateResponse("/a"),
        ours.MultiHeader(OpCode.SET_DATA, False, 0),
        ours.SetDataResponse(stat),
        ours.MultiHeader(OpCode.CHECK, False, 0),
        ours.MultiHeader(OpCode.ERROR, False, BadVersion.code),
        ours.ErrorResponse(BadVersion.code),
        ours.MultiHeader(-1, True, -1),
    ]
    created, changed, checked, failed = kz.Transaction.deserialize(b"".join(map(encode, parts)), 0)
    assert (created, changed, checked) == ("/a", as_kazoo(stat), True)
    assert isinstance(failed, BadVersionError)


def as_kazoo(stat: ours.Stat) -> Any:
    return ZnodeStat(*kz.stat_struct.unpack(encode(stat)))


@given(records(ours.Stat))
def test_stat_has_kazoos_order_of_fields(stat: ours.Stat) -> None:
    """Two lists of eleven names, written by different people, agree."""
    read = kz.SetData.deserialize(encode(ours.SetDataResponse(stat)), 0)
    for name in ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "pzxid"):
        assert getattr(read, name) == getattr(stat, name)
    assert read.ephemeralOwner == stat.ephemeral_owner
    assert read.dataLength == stat.data_length
    assert read.numChildren == stat.num_children


@given(records(ours.Stat), text, st.binary(), st.lists(text, max_size=3), acls)
def test_replies(stat: ours.Stat, path: str, data: bytes, names: list[str], acl: list[Any]) -> None:
    """Kazoo reads the replies with a body as we wrote them."""
    theirs = as_kazoo(stat)
    children = tuple(names)
    assert kz.Create.deserialize(encode(ours.CreateResponse(path)), 0) == path
    assert kz.Create2.deserialize(encode(ours.Create2Response(path, stat)), 0) == (path, theirs)
    assert kz.GetData.deserialize(encode(ours.GetDataResponse(data, stat)), 0) == (data, theirs)
    assert kz.GetChildren.deserialize(encode(ours.GetChildrenResponse(children)), 0) == names
    assert kz.GetChildren2.deserialize(encode(ours.GetChildren2Response(children, stat)), 0) == (
        names,
        theirs,
    )
    assert kz.GetACL.deserialize(encode(ours.GetAclResponse(as_ours(acl), stat)), 0) == (acl, theirs)
    assert kz.Sync.deserialize(encode(ours.SyncResponse(path)), 0) == path
    assert kz.SASL.deserialize(encode(ours.SetSaslResponse(data)), 0)[0] == data


@given(records(ours.ReplyHeader), int32, int32, text)
def test_notifications(header: ours.ReplyHeader, type_: int, state: int, path: str) -> None:
    """Kazoo reads the header, then the event behind it."""
    sent = encode(header) + encode(ours.WatcherEvent(type_, state, path))
    read, at = kz.ReplyHeader.deserialize(sent, 0)
    assert read == (header.xid, header.zxid, header.err)
    assert kz.Watch.deserialize(sent, at) == ((type_, state, path), len(sent))
