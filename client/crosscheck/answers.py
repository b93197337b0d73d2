"""Replies as fields with names, each of a kind that says how it is compared."""

from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import attrs

from client.crosscheck.exchanges import Answered
from client.replies import decode_reply
from jute.client_records import (
    Create2Response,
    CreateResponse,
    ErrorResponse,
    ExistsResponse,
    GetAclResponse,
    GetAllChildrenNumberResponse,
    GetChildren2Response,
    GetChildrenResponse,
    GetDataResponse,
    GetEphemeralsResponse,
    MultiHeader,
    SetAclResponse,
    SetDataResponse,
    Stat,
    SyncResponse,
    WhoAmIResponse,
)
from jute.opcodes import OpCode
from jute.record import DecodeError

Kind: TypeAlias = Literal["value", "zxid", "time", "session", "names"]
OK: Final = 0

RESPONSES: Final[dict[int, type[Any]]] = {
    OpCode.CREATE: CreateResponse,
    OpCode.CREATE2: Create2Response,
    OpCode.CREATE_CONTAINER: Create2Response,
    OpCode.CREATE_TTL: Create2Response,
    OpCode.EXISTS: ExistsResponse,
    OpCode.GET_DATA: GetDataResponse,
    OpCode.SET_DATA: SetDataResponse,
    OpCode.GET_ACL: GetAclResponse,
    OpCode.SET_ACL: SetAclResponse,
    OpCode.GET_CHILDREN: GetChildrenResponse,
    OpCode.GET_CHILDREN2: GetChildren2Response,
    OpCode.SYNC: SyncResponse,
    OpCode.ADD_WATCH: ErrorResponse,
    OpCode.GET_EPHEMERALS: GetEphemeralsResponse,
    OpCode.GET_ALL_CHILDREN_NUMBER: GetAllChildrenNumberResponse,
    OpCode.WHO_AM_I: WhoAmIResponse,
    OpCode.ERROR: ErrorResponse,
}
_STAT_KINDS: Final[dict[str, Kind]] = {
    "czxid": "zxid",
    "mzxid": "zxid",
    "pzxid": "zxid",
    "ctime": "time",
    "mtime": "time",
    "ephemeral_owner": "session",
}


@attrs.frozen
class Field:
    """One value of a reply."""

    kind: Kind
    value: object


def fields_of(answered: Answered) -> dict[str, Field]:
    """Everything a reply says, by name. What cannot be read stands there as bytes."""
    fields = {"error": Field("value", answered.err)}
    if answered.err != OK:
        return fields
    op = answered.asked.op
    try:
        if op in (OpCode.MULTI, OpCode.MULTI_READ):
            return fields | dict(_multi_fields(answered.body))
        if op in RESPONSES:
            return fields | dict(_record_fields(decode_reply(RESPONSES[op], answered.body)[0], ""))
    except DecodeError:
        pass
    return fields | {"body": Field("value", answered.body)} if answered.body else fields


def _multi_fields(body: bytes) -> Iterator[tuple[str, Field]]:
    header, at = decode_reply(MultiHeader, body)
    index = 0
    while not header.done:
        yield f"{index}.type", Field("value", header.type)
        if header.type in RESPONSES:
            record, at = decode_reply(RESPONSES[header.type], body, at)
            yield from _record_fields(record, f"{index}.")
        index += 1
        header, at = decode_reply(MultiHeader, body, at)


def _record_fields(record: Any, prefix: str) -> Iterator[tuple[str, Field]]:
    for attribute in record.__match_args__:
        value = getattr(record, attribute)
        name = prefix + attribute
        if isinstance(value, Stat):
            for part in Stat.__match_args__:
                yield f"{name}.{part}", Field(_STAT_KINDS.get(part, "value"), getattr(value, part))
        elif isinstance(value, tuple):  # in an order that nobody promises, except an ACL's
            is_ordered = attribute == "acl"
            yield name, Field("value" if is_ordered else "names", value)
        else:
            yield name, Field("value", value)
