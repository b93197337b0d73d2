"""`@record`: a frozen attrs class, with an encoder and a decoder compiled from its annotations.

A field's annotation is a type of primitives.py, another record, or a `Vector` of those; there is no second
list of fields to keep in step. Records inside a record are flattened first, so that every run of adjacent
fixed-width fields, across record borders, costs one struct call. ReplyHeader becomes

    def encode(rec):
        return pack0(rec.xid, rec.zxid, rec.err)

    def decode(data, at, end, limit):
        if at + 16 > end: cut_short('ReplyHeader', at + 16, end)
        v0, v1, v2, = unpack0(data, at); at += 16
        return ReplyHeader(v0, v1, v2), at

What always holds:
  1. Decoding foreign bytes either succeeds or raises DecodeError. It reads nothing at or past `end`.
  2. Nothing is allocated on the strength of a length or a count alone: the bytes must be there first.
  3. Bytes behind the record are not looked at: the offset behind it is handed back.
Encoding trusts its record: an integer that does not fit is our mistake and raises struct.error.
"""

import struct
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar, dataclass_transform, get_args, get_origin

import attrs

from jute.primitives import BUFFER, USTRING, VECTOR, decode_ustring, encode_ustring

# A string or buffer inside a record may be longer than a whole frame: jute.maxbuffer plus
# zookeeper.jute.maxbuffer.extrasize, each 1048575 unless set.
INNER_LENGTH_MAX = 2 * 0xFFFFF

_T = TypeVar("_T")
_Encoder = Callable[[Any], bytes]
_Decoder = Callable[[bytes, int, int, int], tuple[Any, int]]  # data, at, end, limit


class DecodeError(ValueError):
    """The bytes are not the record they were taken for."""


class Truncated(DecodeError):
    """The bytes end before the record does: of a stream, more may follow and complete it."""


def encode(rec: object) -> bytes:
    """The wire form of a record."""
    return _codecs[type(rec)].encode(rec)


def decode(
    cls: type[_T], data: bytes, offset: int = 0, end: int | None = None, limit: int = INNER_LENGTH_MAX
) -> tuple[_T, int]:
    """Read the record that starts at `offset`; return it and the offset behind it.

    Raises DecodeError, or its subclass Truncated if all that is wrong is that `end` comes too early.
    """
    end = len(data) if end is None else end
    assert 0 <= offset <= end <= len(data)
    rec: tuple[_T, int] = _codecs[cls].decode(data, offset, end, limit)
    return rec


@dataclass_transform(frozen_default=True)
def record(cls: type[_T]) -> type[_T]:
    """Class decorator: make `cls` a frozen attrs class that `encode` and `decode` know."""
    rec_cls = attrs.frozen(cls)
    _codecs[rec_cls] = _compile(rec_cls)
    return rec_cls


class _Codec(NamedTuple):
    encode: _Encoder
    decode: _Decoder
    size_min: int  # the fewest bytes this can take on the wire


_codecs: dict[object, _Codec] = {}


# --- The compiler: leaves of the flattened record, then source, then two functions.


class _Leaf(NamedTuple):
    access: str  # an expression that gives the value, e.g. rec.id.scheme
    wire: str  # a struct character, USTRING, BUFFER or VECTOR
    element: object  # of a vector; else None


def _compile(cls: type) -> _Codec:
    namespace: dict[str, Any] = {
        "cut_short": _cut_short,
        "write_ustring": _write_ustring,
        "write_buffer": _write_buffer,
        "write_vector": _write_vector,
        "read_ustring": _read_ustring,
        "read_buffer": _read_buffer,
        "read_vector": _read_vector,
    }
    leaves: list[_Leaf] = []
    construction = _flatten(cls, "rec", leaves, namespace)
    parts: list[str] = []
    steps: list[str] = []
    size_min = 0
    at = 0
    while at < len(leaves):
        run = _fixed_run(leaves, at)
        if run:
            size_min += _emit_run(cls, run, at, parts, steps, namespace)
        else:
            size_min += _emit_single(leaves[at], at, parts, steps, namespace)
        at += len(run) or 1
    source = _source(parts, steps, construction)
    exec(compile(source, f"<jute codec of {cls.__name__}>", "exec"), namespace)
    return _Codec(namespace["encode"], namespace["decode"], size_min)


def _flatten(cls: type, access: str, leaves: list[_Leaf], namespace: dict[str, Any]) -> str:
    """Append the leaves of a record; return the expression that builds it from v0, v1, ..."""
    namespace[cls.__name__] = cls
    arguments = []
    for field in attrs.fields(cls):
        inner = f"{access}.{field.name}"
        if get_origin(field.type) is Annotated:
            annotated, wire = get_args(field.type)
            element = _element_type(annotated) if wire == VECTOR else None
            arguments.append(f"v{len(leaves)}")
            leaves.append(_Leaf(inner, wire, element))
        elif field.type in _codecs:
            arguments.append(_flatten(field.type, inner, leaves, namespace))
        else:
            raise TypeError(f"{cls.__name__}.{field.name}: {field.type!r} has no wire format")
    return f"{cls.__name__}({', '.join(arguments)})"


def _element_type(vector: object) -> object:
    """T, out of `tuple[T, ...] | None`."""
    element: object = get_args(get_args(vector)[0])[0]
    return element


def _fixed_run(leaves: list[_Leaf], start: int) -> list[_Leaf]:
    """The fixed-width leaves from `start` up to the next one that is not."""
    stop = start
    while stop < len(leaves) and len(leaves[stop].wire) == 1:
        stop += 1
    return leaves[start:stop]


def _emit_run(
    cls: type, run: list[_Leaf], at: int, parts: list[str], steps: list[str], namespace: dict[str, Any]
) -> int:
    layout = struct.Struct(">" + "".join(leaf.wire for leaf in run))
    namespace[f"pack{at}"] = layout.pack
    namespace[f"unpack{at}"] = layout.unpack_from
    names = "".join(f"v{at + i}, " for i in range(len(run)))
    parts.append(f"pack{at}({', '.join(leaf.access for leaf in run)})")
    steps.append(f"if at + {layout.size} > end: cut_short({cls.__name__!r}, at + {layout.size}, end)")
    steps.append(f"{names}= unpack{at}(data, at); at += {layout.size}")
    return layout.size


def _emit_single(leaf: _Leaf, at: int, parts: list[str], steps: list[str], namespace: dict[str, Any]) -> int:
    if leaf.wire == VECTOR:
        namespace[f"element{at}"] = _element_codec(leaf.element)
        parts.append(f"write_vector({leaf.access}, element{at})")
        steps.append(f"v{at}, at = read_vector(data, at, end, limit, element{at})")
    else:
        parts.append(f"write_{leaf.wire}({leaf.access})")
        steps.append(f"v{at}, at = read_{leaf.wire}(data, at, end, limit)")
    return _LENGTH.size


def _element_codec(element: object) -> _Codec:
    if get_origin(element) is Annotated:
        return {USTRING: _USTRING_CODEC, BUFFER: _BUFFER_CODEC}[get_args(element)[1]]
    codec = _codecs[element]
    # Else a count would say nothing about the bytes that must follow it.
    assert codec.size_min > 0, f"a vector of empty records: {element}"
    return codec


def _source(parts: list[str], steps: list[str], construction: str) -> str:
    whole = parts[0] if len(parts) == 1 else f"b''.join(({', '.join(parts)}))"
    lines = ["def encode(rec):", f"    return {whole}", "def decode(data, at, end, limit):"]
    lines += [f"    {step}" for step in steps]
    lines += [f"    return {construction}, at"]
    return "\n".join(lines)


# --- What the compiled functions call.

_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)


def _cut_short(what: str, needed: int, end: int) -> NoReturn:
    raise Truncated(f"{what}: needs bytes up to {needed}, but they end at {end}")


def _write_ustring(text: str | None) -> bytes:
    return _NULL if text is None else _write_buffer(encode_ustring(text))


def _write_buffer(data: bytes | None) -> bytes:
    return _NULL if data is None else _LENGTH.pack(len(data)) + data


def _write_vector(items: tuple[object, ...] | None, element: _Codec) -> bytes:
    if items is None:
        return _NULL
    return _LENGTH.pack(len(items)) + b"".join(map(element.encode, items))


def _read_length(data: bytes, at: int, end: int) -> int:
    if at + 4 > end:
        _cut_short("a length", at + 4, end)
    length: int = _LENGTH.unpack_from(data, at)[0]
    return length


def _read_buffer(data: bytes, at: int, end: int, limit: int) -> tuple[bytes | None, int]:
    length = _read_length(data, at, end)
    at += 4
    if length == -1:
        return None, at
    if not 0 <= length <= limit:
        raise DecodeError(f"length {length} at byte {at - 4}: must be -1 to {limit}")
    stop = at + length
    if stop > end:
        _cut_short("a string or buffer", stop, end)
    return data[at:stop], stop


def _read_ustring(data: bytes, at: int, end: int, limit: int) -> tuple[str | None, int]:
    raw, at = _read_buffer(data, at, end, limit)
    return None if raw is None else decode_ustring(raw), at


def _read_vector(
    data: bytes, at: int, end: int, limit: int, element: _Codec
) -> tuple[tuple[object, ...] | None, int]:
    count = _read_length(data, at, end)
    at += 4
    if count == -1:
        return None, at
    # Another negative count stands for no elements: the Java loop ends before it begins.
    if at + count * element.size_min > end:
        _cut_short("a vector", at + count * element.size_min, end)
    items = []
    for _ in range(count):
        item, at = element.decode(data, at, end, limit)
        items.append(item)
    return tuple(items), at


_USTRING_CODEC = _Codec(_write_ustring, _read_ustring, _LENGTH.size)
_BUFFER_CODEC = _Codec(_write_buffer, _read_buffer, _LENGTH.size)
