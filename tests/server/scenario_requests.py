"""The requests of the scenario language (scenario.py), from words to bytes."""

import ast
import re
from collections import deque
from collections.abc import Callable
from struct import pack

from jute.opcodes import OpCode

_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_PERMS = {"r": 1, "w": 2, "c": 4, "d": 8, "a": 16}
_MULTI_END = pack(">i?i", -1, True, -1)
_NULL = pack(">i", -1)


class Words:
    """The words of a command that are not taken yet: those that stand alone, and options as name=value."""

    def __init__(self, tokens: list[str]) -> None:
        self._options: dict[str, str] = {}
        self._plain: deque[str] = deque()
        for token in tokens:
            name, equals, value = token.partition("=")
            if equals and name.isidentifier():
                self._options[name] = value
            else:
                self._plain.append(token)

    def option(self, name: str, default: str) -> str:
        return self._options.pop(name, default)

    def flag(self, name: str) -> bool:
        found = name in self._plain
        if found:
            self._plain.remove(name)
        return found

    def take(self, default: str = '""') -> str:
        return self._plain.popleft() if self._plain else default

    def take_buffer(self) -> bytes:
        return buffer(as_bytes(self.take()))

    def take_all(self) -> str:
        taken, self._plain = " ".join(self._plain), deque()
        return taken

    def assert_used(self) -> None:
        assert not self._plain, f"what are {self._plain}?"
        assert not self._options, f"what are {self._options}?"


def as_bytes(token: str) -> bytes | None:
    """A word as a client's bytes: text as UTF-8, null as None."""
    if token == "null":
        return None
    if token.startswith("hex:"):
        return bytes.fromhex(token[4:])
    return _QUOTED.sub(lambda quoted: str(ast.literal_eval(quoted[0])), token).encode()


def buffer(data: bytes | None) -> bytes:
    return _NULL if data is None else pack(">i", len(data)) + data


def strings(text: str) -> bytes:
    """A vector of strings, from words with commas between them."""
    if text == "null":
        return _NULL
    parts = text.split(",") if text else []
    return pack(">i", len(parts)) + b"".join(buffer(as_bytes(part)) for part in parts)


def acl(text: str) -> bytes:
    """A vector of ACLs, from `rw@scheme:id,...`; without a colon the id is null."""
    if text == "null":
        return _NULL
    entries = text.split(",") if text else []
    return pack(">i", len(entries)) + b"".join(map(_acl_entry, entries))


def _acl_entry(text: str) -> bytes:
    perms, _, who = text.partition("@")
    scheme, colon, name = who.partition(":")
    bits = int(perms) if perms.lstrip("-").isdigit() else sum(_PERMS[letter] for letter in perms)
    return pack(">i", bits) + buffer(as_bytes(scheme)) + buffer(as_bytes(name) if colon else None)


def connect_request(words: Words, session_id: int, password: bytes) -> bytes:
    session_id = int(words.option("id", str(session_id)), 0)
    password = bytes.fromhex(words.option("password", password.hex()))
    version, seen = int(words.option("version", "0")), int(words.option("seen", "0"))
    body = pack(">iqiq", version, seen, int(words.option("timeout", "10000")), session_id) + buffer(password)
    read_only = words.option("readonly", "0")
    return body if read_only == "absent" else body + bytes([int(read_only)])


def request(what: str, tokens: list[str]) -> bytes:
    """The body of the request that a command names."""
    if what in ("multi", "multiread"):
        return _multi(tokens)
    words = Words(tokens)
    body = _ENCODERS[OPCODES[what]](words)
    words.assert_used()
    return body


def _multi(tokens: list[str]) -> bytes:
    """Commands with semicolons between them, each in its frame."""
    operations: list[list[str]] = [[]]
    for token in tokens:
        if token == ";":
            operations.append([])
        else:
            operations[-1].append(token)
    parts = []
    for what, *rest in filter(None, operations):
        parts += [pack(">i?i", OPCODES[what], False, -1), request(what, rest)]
    return b"".join(parts) + _MULTI_END


def _acl_option(words: Words) -> bytes:
    return acl(words.option("acl", "31@world:anyone"))


def _version(words: Words) -> bytes:
    return pack(">i", int(words.option("v", "-1")))


def _create(words: Words) -> bytes:
    body = words.take_buffer() + words.take_buffer() + _acl_option(words)
    return body + pack(">i", int(words.option("flags", "0")))


def _create_ttl(words: Words) -> bytes:
    return _create(words) + pack(">q", int(words.option("ttl", "-1")))


def _read(words: Words) -> bytes:
    watch = words.flag("watch")
    return words.take_buffer() + bytes([watch])


def _path_and_version(words: Words) -> bytes:
    return words.take_buffer() + _version(words)


def _path_and_number(words: Words) -> bytes:
    return words.take_buffer() + pack(">i", int(words.take()))


def _set_watches(words: Words, *more: str) -> bytes:
    lists = (words.option(name, "") for name in ("data", "exist", "child", *more))
    return pack(">q", int(words.option("since", "0"))) + b"".join(map(strings, lists))


def _nothing(words: Words) -> bytes:
    return b""


OPCODES = {
    "create": OpCode.CREATE,
    "create2": OpCode.CREATE2,
    "createContainer": OpCode.CREATE_CONTAINER,
    "createTTL": OpCode.CREATE_TTL,
    "delete": OpCode.DELETE,
    "deleteContainer": OpCode.DELETE_CONTAINER,
    "set": OpCode.SET_DATA,
    "setacl": OpCode.SET_ACL,
    "check": OpCode.CHECK,
    "exists": OpCode.EXISTS,
    "get": OpCode.GET_DATA,
    "ls": OpCode.GET_CHILDREN,
    "ls2": OpCode.GET_CHILDREN2,
    "getacl": OpCode.GET_ACL,
    "count": OpCode.GET_ALL_CHILDREN_NUMBER,
    "ephemerals": OpCode.GET_EPHEMERALS,
    "sync": OpCode.SYNC,
    "ping": OpCode.PING,
    "whoami": OpCode.WHO_AM_I,
    "addwatch": OpCode.ADD_WATCH,
    "rmwatch": OpCode.REMOVE_WATCHES,
    "chkwatch": OpCode.CHECK_WATCHES,
    "setwatches": OpCode.SET_WATCHES,
    "setwatches2": OpCode.SET_WATCHES2,
    "auth": OpCode.AUTH,
    "sasl": OpCode.SASL,
    "reconfig": OpCode.RECONFIG,
    "multi": OpCode.MULTI,
    "multiread": OpCode.MULTI_READ,
    "createSession": OpCode.CREATE_SESSION,
    "close": OpCode.CLOSE_SESSION,
}

_ENCODERS: dict[OpCode, Callable[[Words], bytes]] = {
    OpCode.CREATE: _create,
    OpCode.CREATE2: _create,
    OpCode.CREATE_CONTAINER: _create,
    OpCode.CREATE_TTL: _create_ttl,
    OpCode.DELETE: _path_and_version,
    OpCode.DELETE_CONTAINER: Words.take_buffer,
    OpCode.SET_DATA: lambda words: words.take_buffer() + words.take_buffer() + _version(words),
    OpCode.SET_ACL: lambda words: words.take_buffer() + _acl_option(words) + _version(words),
    OpCode.CHECK: _path_and_version,
    OpCode.EXISTS: _read,
    OpCode.GET_DATA: _read,
    OpCode.GET_CHILDREN: _read,
    OpCode.GET_CHILDREN2: _read,
    OpCode.GET_ACL: Words.take_buffer,
    OpCode.GET_ALL_CHILDREN_NUMBER: Words.take_buffer,
    OpCode.GET_EPHEMERALS: Words.take_buffer,
    OpCode.SYNC: Words.take_buffer,
    OpCode.PING: _nothing,
    OpCode.WHO_AM_I: _nothing,
    OpCode.ADD_WATCH: _path_and_number,
    OpCode.REMOVE_WATCHES: _path_and_number,
    OpCode.CHECK_WATCHES: _path_and_number,
    OpCode.SET_WATCHES: _set_watches,
    OpCode.SET_WATCHES2: lambda words: _set_watches(words, "persistent", "recursive"),
    OpCode.AUTH: lambda words: pack(">i", 0) + words.take_buffer() + words.take_buffer(),
    OpCode.SASL: Words.take_buffer,
    OpCode.RECONFIG: lambda words: _NULL + _NULL + words.take_buffer() + pack(">q", -1),
    OpCode.CREATE_SESSION: lambda words: pack(">i", int(words.take())),
    OpCode.CLOSE_SESSION: _nothing,
}
