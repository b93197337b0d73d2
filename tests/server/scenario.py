"""A small language for conversations with a server, spoken by the files in testdata/.

A file is a list of blocks: commands, a line of dashes, and what the clients hear then. Lines that begin with
# are comments. A command is a client's name and a request, or one of the server's own:

    A connect timeout=4000 session=B     the handshake; session=B comes back to the session of B
    A create /a data flags=1 acl=rw@world:anyone,a@digest:u:hash      also create2, createContainer, createTTL
    A multi create /a x ; set /a y v=0 ; check /a v=1
    A raw 99 00000001                    an opcode and a body in hex; "A bytes 0000" sends bytes as they are
    hold / release 2 / release           keep transactions from becoming durable; let two or all of them go
    pass 2000                            milliseconds go by
    server enforceQuota=true             a new server with other settings, by their names in zoo.cfg

Words are separated by blanks; "..." may hold blanks and Python's escapes, hex:2fff is any bytes, null is
null. Options are xid=, v= (version), flags=, ttl=, acl=, and watch.

What is heard is shown client by client, in order of arrival: @5 is the zxid of a reply, then comes its error,
or what it holds. A Stat is [c(zxid) m(zxid) p(zxid) v(ersion) cv(ersion) av(ersion) owner len kids], without
what is zero.
"""

import re
from collections import deque
from collections.abc import Iterator
from struct import pack, unpack_from
from typing import Protocol

import attrs

from jute.opcodes import NOTIFICATION_XID, PING_XID, OpCode
from tests.server.scenario_replies import error_name, event, reply
from tests.server.scenario_requests import OPCODES, Words, buffer, connect_request, request

DASHES = "----"
_TOKEN = re.compile(r'(?:[^\s"]|"(?:\\.|[^"\\])*")+')
_CONNECT = 0  # no opcode: stands for the handshake among what was asked
_MAY_OVERTAKE = (OpCode.AUTH, OpCode.SASL)


class Wire(Protocol):
    """One connection to a server."""

    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes:
        """Everything that has come since the last time, once the server has done all that it can."""

    def is_closed(self) -> bool: ...


class ServerUnderTest(Protocol):
    """What a scenario is played against."""

    def open_wire(self, address: str) -> Wire: ...

    def command(self, words: list[str]) -> None:
        """hold, release or pass."""

    def restart(self, settings: dict[str, str]) -> None:
        """Be a new, empty server."""


# -- files


@attrs.frozen
class Block:
    """Some commands and what is heard then; `above` holds the comments and blank lines in front of them."""

    above: str
    commands: tuple[str, ...]
    heard: tuple[str, ...]

    def __str__(self) -> str:
        lines = [*self.commands, DASHES, *self.heard] if self.commands else []
        return self.above + "".join(line + "\n" for line in lines)


def parse_blocks(text: str) -> Iterator[Block]:
    above: str = ""
    commands: list[str] = []
    lines = deque(text.splitlines())
    while lines:
        line = lines.popleft()
        if line == DASHES:
            heard = []
            while lines and lines[0]:
                heard.append(lines.popleft())
            yield Block(above, tuple(commands), tuple(heard))
            above, commands = "", []
        elif not line or line.startswith("#"):
            assert not commands, f"no {DASHES} behind {commands}"
            above += line + "\n"
        else:
            commands.append(line)
    assert not commands, f"no {DASHES} behind {commands}"
    yield Block(above, (), ())


def play(text: str, server: ServerUnderTest) -> str:
    """The same file, with what is really heard."""
    stage = Stage(server)
    return "".join(str(attrs.evolve(block, heard=stage.run(block.commands))) for block in parse_blocks(text))


# -- the cast


class Stage:
    """The clients of a scenario and the server they speak with."""

    def __init__(self, server: ServerUnderTest) -> None:
        self.server = server
        self.clients: dict[str, Client] = {}
        self.owners: dict[int, str] = {}  # who opened a session

    def run(self, commands: tuple[str, ...]) -> tuple[str, ...]:
        for command in commands:
            self._run(_TOKEN.findall(command))
        return tuple(line for name in sorted(self.clients) for line in self.clients[name].hear())

    def _run(self, tokens: list[str]) -> None:
        name = tokens[0]
        if name == "server":
            self.clients.clear()
            self.owners.clear()
            self.server.restart(dict(token.split("=", 1) for token in tokens[1:]))
        elif name.islower():
            self.server.command(tokens)
        elif tokens[1] == "connect":
            self._connect(name, Words(tokens[2:]))
        else:
            self.clients[name].ask(tokens[1], tokens[2:])

    def _connect(self, name: str, words: Words) -> None:
        known = self.clients.get(words.option("session", ""))
        client = Client(name, self, words.option("address", "127.0.0.1"))
        client.connect(words, known)
        words.assert_used()
        self.clients[name] = client

    def session_name(self, session_id: int) -> str:
        return self.owners.get(session_id, hex(session_id & 0xFFFFFFFFFFFFFFFF))


class Client:
    """One named client: what it asked, so that the answers can be told apart."""

    def __init__(self, name: str, stage: Stage, address: str) -> None:
        self.name = name
        self.session_id = 0
        self.password = bytes(16)
        self._stage = stage
        self._wire = stage.server.open_wire(address)
        self._asked: deque[tuple[int, int]] = deque()  # xid and opcode, oldest first
        self._xid = 0
        self._unread = b""
        self._was_closed = False

    def connect(self, words: Words, known: "Client | None") -> None:
        session_id, password = (known.session_id, known.password) if known else (0, bytes(16))
        self._asked.append((0, _CONNECT))
        self._wire.send(buffer(connect_request(words, session_id, password)))

    def ask(self, what: str, tokens: list[str]) -> None:
        if what == "bytes":
            self._wire.send(bytes.fromhex("".join(tokens)))
            return
        self._xid += 1
        xid = {"ping": PING_XID, "auth": -4}.get(what, self._xid)
        if tokens and tokens[-1].startswith("xid="):
            xid = int(tokens.pop()[4:])
        if what == "raw":
            opcode, body = int(tokens[0]), bytes.fromhex("".join(tokens[1:]))
        else:
            opcode, body = OPCODES[what], request(what, tokens)
        self._asked.append((xid, opcode))
        self._wire.send(buffer(pack(">ii", xid, opcode) + body))

    def hear(self) -> list[str]:
        self._unread += self._wire.receive()
        heard = []
        while self._unread:
            length = unpack_from(">i", self._unread)[0]
            assert len(self._unread) >= 4 + length, "a frame is incomplete"
            heard.append(self._show(self._unread[4 : 4 + length]))
            self._unread = self._unread[4 + length :]
        if self._wire.is_closed() and not self._was_closed:
            self._was_closed = True
            heard.append("closed")
        return [line for each in heard for line in f"{self.name} {each}".split("\n")]

    def _show(self, frame: bytes) -> str:
        if self._is_handshake(frame):
            return self._show_handshake(frame)
        xid, zxid, err = unpack_from(">iqi", frame)
        if xid == NOTIFICATION_XID and (xid, OpCode.EXISTS) not in self._asked:
            assert err == 0
            return f"@{zxid} {event(frame[16:])}"
        opcode = self._answered(xid)
        shown_xid = f" xid={xid}" if xid < 0 or opcode in (OpCode.PING, OpCode.AUTH) else ""
        body = reply(opcode, frame[16:], self._stage.session_name)
        return f"@{zxid}{shown_xid} {error_name(err)} {body}".rstrip()

    def _is_handshake(self, frame: bytes) -> bool:
        asked = {opcode for _, opcode in self._asked}
        return (_CONNECT in asked or OpCode.CREATE_SESSION in asked) and len(frame) in (36, 37)

    def _show_handshake(self, frame: bytes) -> str:
        self._asked.popleft()
        version, timeout_ms, session_id = unpack_from(">iiq", frame)
        assert version == 0
        assert frame[16:20] == pack(">i", 16)
        read_only = f" readonly={frame[36]}" if len(frame) == 37 else ""
        if not session_id:
            assert not any(frame[4:16] + frame[20:36])
            return f"refused{read_only}"
        self.session_id, self.password = session_id, frame[20:36]
        owner = self._stage.owners.setdefault(session_id, self.name)
        return f"connected session={owner} timeout={timeout_ms}{read_only}"

    def _answered(self, xid: int) -> int:
        for index, (asked, opcode) in enumerate(self._asked):
            if asked == xid or (opcode == OpCode.PING and xid == PING_XID):
                assert index == 0 or opcode in _MAY_OVERTAKE or opcode not in OPCODES.values(), "out of order"
                del self._asked[index]
                return opcode
        raise AssertionError(f"{self.name} did not ask anything with xid {xid}")
