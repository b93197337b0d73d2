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

import itertools
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
    for name, method in _SHARED_METHODS.items():
        setattr(cls, name, method)
    rec_cls = attrs.frozen(cls)
    fields: tuple[attrs.Attribute[Any], ...] = attrs.fields(rec_cls)  # type: ignore[arg-type]
    for field in fields:
        if field.type not in _records and get_origin(field.type) is not Annotated:
            raise TypeError(f"{cls.__name__}.{field.name}: {field.type!r} has no wire format")
    _records.add(rec_cls)
    return rec_cls


def _values(rec: Any) -> tuple[object, ...]:
    return tuple([getattr(rec, name) for name in rec.__match_args__])


def _equals(self: object, other: object) -> bool:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: object) -> int:
    return hash((type(self), _values(self)))


def _shown(self: Any) -> str:
    pairs = (f"{name}={value!r}" for name, value in zip(self.__match_args__, _values(self), strict=True))
    return f"{type(self).__name__}({', '.join(pairs)})"


# attrs would compile three methods for each record, and every start would wait for that.
_SHARED_METHODS = {"__eq__": _equals, "__hash__": _hash, "__repr__": _shown}


class _Codec(NamedTuple):
    encode: _Encoder
    decode: _Decoder
    size_min: int  # the fewest bytes this can take on the wire


class _Codecs(dict[object, _Codec]):
    """The codecs of records, each compiled when it is first needed: a process needs few of them."""

    def __missing__(self, cls: type) -> _Codec:
        assert cls in _records, f"{cls} is not a record"
        codec = self[cls] = _compile(cls)
        return codec


_records: set[object] = set()
_codecs = _Codecs()


# --- The compiler: the leaves of the flattened record, then source, then two functions.


class _Leaf(NamedTuple):
    access: str  # an expression for the value, e.g. rec.id.scheme
    wire: str  # a struct character, USTRING, BUFFER or VECTOR
    element: object  # of a vector; else None

    @property
    def is_fixed(self) -> bool:
        return len(self.wire) == 1


def _compile(cls: type) -> _Codec:
    leaves: list[_Leaf] = []
    source = _Source(cls.__name__)
    source.construction = _flatten(cls, "rec", leaves, source.namespace)
    at = 0
    for is_fixed, group in itertools.groupby(leaves, lambda leaf: leaf.is_fixed):
        run = list(group)
        if is_fixed:
            source.add_fixed(run, at)
        else:
            for index, leaf in enumerate(run, at):
                source.add_variable(leaf, index)
        at += len(run)
    return source.compile()


def _flatten(cls: type, access: str, leaves: list[_Leaf], namespace: dict[str, Any]) -> str:
    """Append the leaves of a record; return the expression that builds it from v0, v1, ..."""
    namespace[cls.__name__] = cls
    arguments = []
    for field in attrs.fields(cls):
        inner = f"{access}.{field.name}"
        if get_origin(field.type) is Annotated:
            annotated, wire = get_args(field.type)
            arguments.append(f"v{len(leaves)}")
            leaves.append(_Leaf(inner, wire, _element_type(annotated) if wire == VECTOR else None))
        else:
            assert field.type is not None
            arguments.append(_flatten(field.type, inner, leaves, namespace))
    return f"{cls.__name__}({', '.join(arguments)})"


def _element_type(vector: object) -> object:
    """T, out of `tuple[T, ...] | None`."""
    element: object = get_args(get_args(vector)[0])[0]
    return element


def _element_codec(element: object) -> _Codec:
    if get_origin(element) is Annotated:
        return {USTRING: _USTRING_CODEC, BUFFER: _BUFFER_CODEC}[get_args(element)[1]]
    codec = _codecs[element]
    # Else a count would say nothing about the bytes that must follow it.
    assert codec.size_min > 0, f"a vector of empty records: {element}"
    return codec


class _Source:
    """The source of one codec while it is being written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.namespace: dict[str, Any] = dict(_RUNTIME)
        self.construction = ""
        self.parts: list[str] = []  # expressions of bytes: joined, they are the encoded record
        self.steps: list[str] = []  # statements that set v0, v1, ... and move `at` on
        self.size_min = 0

    def add_fixed(self, run: list[_Leaf], index: int) -> None:
        layout = struct.Struct(">" + "".join(leaf.wire for leaf in run))
        self.namespace[f"pack{index}"] = layout.pack
        self.namespace[f"unpack{index}"] = layout.unpack_from
        names = "".join(f"v{i}, " for i in range(index, index + len(run)))
        self.parts.append(f"pack{index}({', '.join(leaf.access for leaf in run)})")
        self.steps.append(f"if at + {layout.size} > end: cut_short({self.name!r}, at + {layout.size}, end)")
        self.steps.append(f"{names}= unpack{index}(data, at); at += {layout.size}")
        self.size_min += layout.size

    def add_variable(self, leaf: _Leaf, index: int) -> None:
        element = ""
        if leaf.wire == VECTOR:
            element = f", element{index}"
            self.namespace[f"element{index}"] = _element_codec(leaf.element)
        self.parts.append(f"write_{leaf.wire}({leaf.access}{element})")
        self.steps.append(f"v{index}, at = read_{leaf.wire}(data, at, end, limit{element})")
        self.size_min += _LENGTH.size

    def compile(self) -> _Codec:
        whole = self.parts[0] if len(self.parts) == 1 else f"b''.join(({', '.join(self.parts)}))"
        lines = ["def encode(rec):", f"    return {whole}", "def decode(data, at, end, limit):"]
        lines += [f"    {step}" for step in self.steps]
        lines += [f"    return {self.construction}, at"]
        exec(compile("\n".join(lines), f"<jute codec of {self.name}>", "exec"), self.namespace)
        return _Codec(self.namespace["encode"], self.namespace["decode"], self.size_min)


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

_RUNTIME = {
    "cut_short": _cut_short,
    "write_ustring": _write_ustring,
    "write_buffer": _write_buffer,
    "write_vector": _write_vector,
    "read_ustring": _read_ustring,
    "read_buffer": _read_buffer,
    "read_vector": _read_vector,
}
