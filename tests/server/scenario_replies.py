"""The replies of the scenario language (scenario.py), from bytes to text."""

from collections.abc import Callable
from struct import Struct, calcsize, unpack_from

from jute.errors import error_for
from jute.opcodes import EventType, OpCode

_STAT = Struct(">qqqqiiiqiiq")
_PERM_LETTERS = ((1, "r"), (2, "w"), (4, "c"), (8, "d"), (16, "a"))
SessionNames = Callable[[int], str]


def error_name(code: int) -> str:
    return "ok" if code == 0 else error_for(code).__name__


def event(body: bytes) -> str:
    """A notification's body."""
    reader = Reader(body, hex)
    kind, state, path = reader.number("i"), reader.number("i"), reader.text()
    assert state == 3, "the only state a server ever sends"
    reader.assert_done()
    return f"event {EventType(kind).name.title().replace('_', '')} {path}"


def reply(opcode: int, body: bytes, session_name: SessionNames) -> str:
    """What the body of a reply holds."""
    if not body:
        return ""
    reader = Reader(body, session_name)
    shown = _BODIES.get(opcode, Reader.raw)(reader)
    reader.assert_done()
    return shown


class Reader:
    """Takes a body apart, field by field, into text."""

    def __init__(self, body: bytes, session_name: SessionNames) -> None:
        self._body = body
        self._at = 0
        self._session_name = session_name

    def assert_done(self) -> None:
        assert self._at == len(self._body), f"{self._body[self._at :].hex()} is left of {self._body.hex()}"

    def number(self, kind: str) -> int:
        value: int = unpack_from(">" + kind, self._body, self._at)[0]
        self._at += calcsize(">" + kind)
        return value

    def data(self) -> bytes | None:
        length = self.number("i")
        if length == -1:
            return None
        start, self._at = self._at, self._at + length
        assert self._at <= len(self._body), "a field is longer than the reply"
        return self._body[start : self._at]

    def text(self) -> str:
        """A string or buffer, quoted where it would not read as one word."""
        data = self.data()
        if data is None:
            return "null"
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return "hex:" + data.hex()
        is_word = text.isascii() and text.isprintable() and not set(text) & set(' "\\') and text != "null"
        return text if text and is_word else '"' + ascii(text)[1:-1] + '"'

    def stat(self) -> str:
        """Without times, which the scenarios do not set, and without zeros."""
        czxid, mzxid, _, _, version, cversion, aversion, owner, length, kids, pzxid = _STAT.unpack_from(
            self._body, self._at
        )
        self._at += _STAT.size
        numbers = {"c": czxid, "m": mzxid, "p": pzxid, "v": version, "cv": cversion, "av": aversion}
        shown = [f"{name}{number}" for name, number in numbers.items() if number]
        shown += [f"owner={self._session_name(owner)}"] if owner else []
        shown += [f"{name}={number}" for name, number in (("len", length), ("kids", kids)) if number]
        return f"[{' '.join(shown)}]"

    def acl(self) -> str:
        return ",".join(self._acl_entry() for _ in range(self.number("i")))

    def _acl_entry(self) -> str:
        perms = self.number("i")
        letters = "".join(letter for bit, letter in _PERM_LETTERS if perms & bit)
        return f"{letters if perms in range(1, 32) else perms}@{self.text()}:{self.text()}"

    def names(self) -> str:
        """A vector of strings, sorted: the order of children and ephemerals is nobody's business."""
        return " ".join(sorted(self.text() for _ in range(self.number("i")))) or "none"

    def client_infos(self) -> str:
        return " ".join(sorted(f"{self.text()}:{self.text()}" for _ in range(self.number("i"))))

    def raw(self) -> str:
        start, self._at = self._at, len(self._body)
        return "hex:" + self._body[start:].hex()

    def path_and_stat(self) -> str:
        return f"{self.text()} {self.stat()}"

    def acl_and_stat(self) -> str:
        return f"{self.acl()} {self.stat()}"

    def names_and_stat(self) -> str:
        return f"{self.names()} {self.stat()}"

    def results(self) -> str:
        """A multi's results, each on a line of its own."""
        shown = ["results:"]
        while True:
            opcode, is_done, err = self.number("i"), self.number("?"), self.number("i")
            if is_done:
                assert (opcode, err) == (-1, -1)
                return "\n".join(shown)
            if opcode == OpCode.ERROR:
                assert self.number("i") == err
                shown.append("    " + error_name(err))
            else:
                assert err == 0
                body = _BODIES[opcode](self) if opcode not in (OpCode.DELETE, OpCode.CHECK) else ""
                shown.append(f"    {OpCode(opcode).name.lower()} {body}".rstrip())


_BODIES: dict[int, Callable[[Reader], str]] = {
    OpCode.CREATE: Reader.text,
    OpCode.CREATE2: Reader.path_and_stat,
    OpCode.CREATE_CONTAINER: Reader.path_and_stat,
    OpCode.CREATE_TTL: Reader.path_and_stat,
    OpCode.SET_DATA: Reader.stat,
    OpCode.SET_ACL: Reader.stat,
    OpCode.EXISTS: Reader.stat,
    OpCode.GET_DATA: Reader.path_and_stat,
    OpCode.GET_CHILDREN: Reader.names,
    OpCode.GET_CHILDREN2: Reader.names_and_stat,
    OpCode.GET_ACL: Reader.acl_and_stat,
    OpCode.GET_ALL_CHILDREN_NUMBER: lambda reader: str(reader.number("i")),
    OpCode.GET_EPHEMERALS: Reader.names,
    OpCode.SYNC: Reader.text,
    OpCode.WHO_AM_I: Reader.client_infos,
    OpCode.SASL: Reader.text,
    OpCode.ADD_WATCH: lambda reader: str(reader.number("i")),
    OpCode.MULTI: Reader.results,
    OpCode.MULTI_READ: Reader.results,
}
