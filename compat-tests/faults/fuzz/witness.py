"""A well-behaved client in lock-step, for as long as others misbehave: it must notice nothing of them.

    python -m faults.fuzz.witness PORT         go, pause, stop on stdin; a line of JSON on stdout for each

One connection writes and reads, another one watches everything the first one does. Every answer is known in
advance: versions, data, zxids, each event and its place before the reply that could reveal it. Both keep
their first connection and session to the end. It is a process of its own, so that its times are the server's.
"""

import json
import select
import socket
import sys
import time
from struct import Struct
from typing import Final

import attrs

from faults.fuzz.frames import frame, hello
from support.opcodes import Op
from support.raw_client import Reader, wire_buffer, wire_byte, wire_int, wire_string, wire_vector

SUPER: Final = b"super:fuzz"
SESSION_MS: Final = 10_000
PATIENCE_SECONDS: Final = 60.0
_OPEN: Final = wire_vector([wire_int(31) + wire_string(b"world") + wire_string(b"anyone")])
_MULTI_END: Final = wire_int(-1) + b"\x01" + wire_int(-1)
_REPLY = Struct(">iqi")
_STAT = Struct(">qqqqiiiqiiq")
_EVENT = Struct(">iii")
_CREATED, _DELETED, _CHANGED, _CHILDREN = 1, 2, 3, 4
_EPHEMERAL_SEQUENTIAL: Final = 3
_PING_XID, _EVENT_XID, _AUTH_XID = -2, -1, -4


class Disturbed(Exception):
    """What the witness saw is not what it should have seen."""


def expect(seen: object, expected: object, what: str) -> None:
    if seen != expected:
        raise Disturbed(f"{what}: {seen!r} instead of {expected!r}")


@attrs.frozen
class Event:
    kind: int
    path: bytes
    zxid: int


class LockStep:
    """A connection on which one request is under way at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._xid = 0
        self.events: list[Event] = []
        self.latencies_ms: list[float] = []
        self._socket.sendall(hello(timeout_ms=SESSION_MS))
        response = Reader(self._frame())
        response.read_int()
        expect(response.read_int(), SESSION_MS, "timeout")
        body = wire_int(0) + wire_string(b"digest") + wire_buffer(SUPER)
        self._ask(_AUTH_XID, Op.AUTH, body)

    def call(self, op: Op, *fields: bytes, err: int = 0) -> tuple[int, Reader]:
        """The zxid and the body of the reply; events before it are in `events`."""
        self._xid += 1
        xid = _PING_XID if op == Op.PING else self._xid
        started = time.monotonic()
        zxid, seen, body = self._ask(xid, op, b"".join(fields))
        self.latencies_ms.append(1000 * (time.monotonic() - started))
        expect(seen, err, f"error of {op.name}")
        return zxid, body

    def _ask(self, xid: int, op: Op, body: bytes) -> tuple[int, int, Reader]:
        self._socket.sendall(frame(xid, op, body))
        while True:
            reply = self._frame()
            seen, zxid, err = _REPLY.unpack_from(reply)
            if seen != _EVENT_XID:
                expect(seen, xid, f"xid of {op.name}")
                return zxid, err, Reader(reply[16:])
            kind, state, _ = _EVENT.unpack_from(reply, 16)
            expect(state, 3, "state of an event")
            self.events.append(Event(kind, reply[28:], zxid))

    def _frame(self) -> bytes:
        while len(self._received) < 4 or len(self._received) < 4 + int.from_bytes(self._received[:4], "big"):
            data = self._socket.recv(65536)
            if not data:
                raise Disturbed("the server hung up")
            self._received += data
        end = 4 + int.from_bytes(self._received[:4], "big")
        taken, self._received = self._received[4:end], self._received[end:]
        return taken

    def pipeline(self, requests: list[bytes]) -> list[tuple[int, Reader]]:
        """Many requests at a time, none of which is watched for; the error and the body of each reply."""
        answers: list[tuple[int, Reader]] = []
        for start in range(0, len(requests), 500):
            batch = requests[start : start + 500]
            self._socket.sendall(b"".join(batch))
            for _ in batch:
                reply = self._frame()
                answers.append((_REPLY.unpack_from(reply)[2], Reader(reply[16:])))
        return answers

    def close_session(self) -> None:
        self.call(Op.CLOSE_SESSION)
        self._socket.close()

    def take_events(self) -> list[Event]:
        taken, self.events = self.events, []
        return taken


class Witness:
    """Two connections and what is known about their node."""

    def __init__(self, port: int) -> None:
        self._writer, self._watcher = LockStep(port), LockStep(port)
        self._home = b"/witness"
        self._node = self._home + b"/register"
        for path in (self._home, self._node):
            self._writer.call(Op.CREATE, wire_string(path), wire_buffer(b""), _OPEN, wire_int(0))
        self._watcher.call(Op.ADD_WATCH, wire_string(self._home), wire_int(1))
        self._version = 0
        self._children = 0
        self.cycles = 0

    def cycle(self) -> None:
        """Some of everything, and a look at what the other connection was told."""
        seen = [self._write(), self._write_watched(), *self._come_and_go(), self._write_in_multi()]
        self._watcher.call(Op.PING)
        expect(self._watcher.take_events(), seen, "events of the recursive watch")
        expect(self._writer.take_events(), [], "events that nobody asked for")
        self.cycles += 1

    def rest(self) -> None:
        """Only keep the sessions."""
        for connection in (self._writer, self._watcher):
            connection.call(Op.PING)

    def _data(self) -> bytes:
        return b"version %d" % self._version

    def _set(self) -> int:
        before, self._version = self._version, self._version + 1
        zxid, body = self._writer.call(
            Op.SET_DATA, wire_string(self._node), wire_buffer(self._data()), wire_int(before)
        )
        stat = _STAT.unpack(body.rest)
        expect((stat[1], stat[4]), (zxid, self._version), "mzxid and version after setData")
        return zxid

    def _write(self) -> Event:
        zxid = self._set()
        _, body = self._writer.call(Op.GET_DATA, wire_string(self._node), wire_byte(0))
        expect(body.read_buffer(), self._data(), "data")
        expect(_STAT.unpack(body.rest)[4], self._version, "version")
        return Event(_CHANGED, self._node, zxid)

    def _write_watched(self) -> Event:
        self._writer.call(Op.EXISTS, wire_string(self._node), wire_byte(1))
        changed = Event(_CHANGED, self._node, self._set())
        expect(self._writer.take_events(), [changed], "events before the reply to setData")
        return changed

    def _come_and_go(self) -> list[Event]:
        self._writer.call(Op.GET_CHILDREN, wire_string(self._home), wire_byte(1))
        prefix = self._home + b"/e-"
        zxid, body = self._writer.call(
            Op.CREATE, wire_string(prefix), wire_buffer(b""), _OPEN, wire_int(_EPHEMERAL_SEQUENTIAL)
        )
        self._children += 1
        path = b"%s%010d" % (prefix, self._children)
        expect(body.read_buffer(), path, "path of the ephemeral")
        told = self._writer.take_events()
        expect(told, [Event(_CHILDREN, self._home, zxid)], "events before the reply to create")
        _, body = self._writer.call(Op.GET_CHILDREN, wire_string(self._home), wire_byte(0))
        expect(body.read_int(), 2, "children")
        gone, _ = self._writer.call(Op.DELETE, wire_string(path), wire_int(0))
        return [Event(_CREATED, path, zxid), Event(_DELETED, path, gone)]

    def _write_in_multi(self) -> Event:
        check = (
            wire_int(Op.CHECK) + b"\x00" + wire_int(-1) + wire_string(self._node) + wire_int(self._version)
        )
        self._version += 1
        change = wire_int(Op.SET_DATA) + b"\x00" + wire_int(-1) + wire_string(self._node)
        change += wire_buffer(self._data()) + wire_int(self._version - 1)
        zxid, body = self._writer.call(Op.MULTI, check, change, _MULTI_END)
        expect(body.read_int(), int(Op.CHECK), "type of the first result")
        return Event(_CHANGED, self._node, zxid)

    def report(self) -> dict[str, float]:
        """How long calls took since the last report."""
        taken = sorted(self._writer.latencies_ms + self._watcher.latencies_ms)
        for connection in (self._writer, self._watcher):
            connection.latencies_ms.clear()
        cycles, self.cycles = self.cycles, 0
        if not taken:
            return {"cycles": 0, "calls": 0}
        return {
            "cycles": cycles,
            "calls": len(taken),
            "p50_ms": round(taken[len(taken) // 2], 2),
            "p99_ms": round(taken[len(taken) * 99 // 100], 2),
            "max_ms": round(taken[-1], 2),
        }


def main() -> None:
    witness = Witness(int(sys.argv[1]))
    is_going = False
    print(json.dumps({"ready": True}), flush=True)
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], 0 if is_going else 1)
        command = sys.stdin.readline().strip() if ready else ""
        if command or ready:
            print(json.dumps(witness.report()), flush=True)
            if command not in ("go", "pause"):
                return
            is_going = command == "go"
        elif is_going:
            witness.cycle()
        else:
            witness.rest()


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(1)  # whoever asked is gone
    except (Disturbed, OSError) as failure:
        print(json.dumps({"disturbed": f"{type(failure).__name__}: {failure}"}), flush=True)
        sys.exit(1)
