"""How zkCli prints what a server tells: stats, ACLs, data, lists."""

import base64
from collections.abc import Iterable, Iterator

from jute.client_records import Acl, Stat
from jute.java_text import java_date, java_hex
from jute.opcodes import Perms

_PERM_LETTERS = (
    (Perms.CREATE, "c"),
    (Perms.DELETE, "d"),
    (Perms.READ, "r"),
    (Perms.WRITE, "w"),
    (Perms.ADMIN, "a"),
)
_BYTES_IN_ROW = 16
_EDGE = "+--------+-------------------------------------------------+----------------+"
_HEAD = (
    "         +-------------------------------------------------+",
    "         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |",
    _EDGE,
)


def stat_lines(stat: Stat) -> list[str]:
    """The block that -s adds."""
    return [
        f"cZxid = 0x{java_hex(stat.czxid)}",
        f"ctime = {java_date(stat.ctime, None)}",
        f"mZxid = 0x{java_hex(stat.mzxid)}",
        f"mtime = {java_date(stat.mtime, None)}",
        f"pZxid = 0x{java_hex(stat.pzxid)}",
        f"cversion = {stat.cversion}",
        f"dataVersion = {stat.version}",
        f"aclVersion = {stat.aversion}",
        f"ephemeralOwner = 0x{java_hex(stat.ephemeral_owner)}",
        f"dataLength = {stat.data_length}",
        f"numChildren = {stat.num_children}",
    ]


def acl_lines(acl: Iterable[Acl]) -> Iterator[str]:
    """Two lines for each entry: Java's Id ends with a line's end when it is printed."""
    for entry in acl:
        yield f"'{_or_null(entry.id.scheme)},'{_or_null(entry.id.id)}"
        yield f": {perm_letters(entry.perms)}"


def perm_letters(perms: int) -> str:
    return "".join(letter for bit, letter in _PERM_LETTERS if perms & bit)


def list_text(items: Iterable[str]) -> str:
    """Java's form of a list."""
    return f"[{', '.join(items)}]"


def java_sorted(names: Iterable[str]) -> list[str]:
    """In the order of Java's strings, which is that of UTF-16 units."""
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def plain_text(data: bytes) -> str:
    return data.decode(errors="replace")


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def hex_dump(data: bytes) -> str:
    """Netty's pretty hex dump; nothing at all for no data."""
    if not data:
        return ""
    return "\n".join([*_HEAD, *_hex_rows(data), _EDGE])


def _hex_rows(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), _BYTES_IN_ROW):
        row = data[start : start + _BYTES_IN_ROW]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"|{start:08x}| {row.hex(' '):<{_BYTES_IN_ROW * 3}}|{shown:<{_BYTES_IN_ROW}}|"


def _or_null(text: str | None) -> str:
    return "null" if text is None else text
