"""The load generator believes no reply: when a server lies once, it must end and say what was wrong."""

import json
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from bench.load import LoadgenUnavailable, build_loadgen

HONEST_REQUESTS = 20  # how many requests of the load are answered truthfully before the lie

Lie = Callable[[bytearray], None]  # what is done to a reply: header (xid, zxid, err) and body

SESSION = 7
GREETING = struct.pack(">iiqi16s?", 0, 30_000, SESSION, 16, b"", False)
CREATE, SET_DATA, GET_DATA, PING, CLOSE = 1, 5, 4, 11, -11


@pytest.fixture(scope="module")
def loadgen() -> Path:
    try:
        return build_loadgen()
    except LoadgenUnavailable as unavailable:
        pytest.skip(str(unavailable))


class LyingServer:
    """Just enough of ZooKeeper for one connection at a time: its node, pings, reads and writes of it."""

    def __init__(self, about: int = 0, lie: Lie | None = None) -> None:
        """Lies once, in the first reply to the opcode `about` after enough honest ones."""
        self.about = about
        self.lie = lie
        self.zxid = 100
        self.asked = 0
        self.version = 0
        self.data = b""

    async def serve(self, stream: trio.SocketStream) -> None:
        # Whoever was lied to may leave without a word, hence the suppression.
        async with aclosing(frames_of(stream)) as frames:
            with suppress(trio.BrokenResourceError):
                await anext(frames)
                await send_frame(stream, GREETING)
                async for request in frames:
                    await send_frame(stream, self.answer(request))
                    if opcode_of(request) == CLOSE:
                        return

    def answer(self, frame: bytes) -> bytes:
        xid, opcode = frame[:4], opcode_of(frame)
        self.zxid += 1
        reply = bytearray(xid + struct.pack(">qi", self.zxid, 0) + self.body(opcode, frame[8:]))
        if opcode in (PING, GET_DATA, SET_DATA):
            self.asked += 1
        if self.lie is not None and self.asked > HONEST_REQUESTS and opcode == self.about:
            self.lie(reply)
            self.lie = None
        return bytes(reply)

    def body(self, opcode: int, request: bytes) -> bytes:
        path_end = 4 + struct.unpack_from(">i", request)[0] if request else 0
        if opcode == CREATE:
            self.data = jute_buffer(request[path_end:])
            path = request[4:path_end] + (b"0000000042" if request[4:path_end].endswith(b"-") else b"")
            return struct.pack(">i", len(path)) + path
        if opcode == SET_DATA:
            self.version += 1
            self.data = jute_buffer(request[path_end:])
            return self.stat()
        if opcode == GET_DATA:
            return struct.pack(">i", len(self.data)) + self.data + self.stat()
        return b""

    def stat(self) -> bytes:
        return struct.pack(">qqqqiiiqiiq", 1, 1, 1, 1, self.version, 0, 0, SESSION, len(self.data), 0, 1)


async def frames_of(stream: trio.SocketStream) -> AsyncGenerator[bytes, None]:
    buffer = b""
    async for received in stream:
        buffer += received
        while len(buffer) >= 4 and len(buffer) >= (end := 4 + struct.unpack_from(">i", buffer)[0]):
            yield buffer[4:end]
            buffer = buffer[end:]


async def send_frame(stream: trio.SocketStream, frame: bytes) -> None:
    await stream.send_all(struct.pack(">i", len(frame)) + frame)


def opcode_of(request: bytes) -> int:
    return int.from_bytes(request[4:8], "big", signed=True)


def jute_buffer(encoded: bytes) -> bytes:
    return encoded[4 : 4 + struct.unpack_from(">i", encoded)[0]]


async def run_against(
    nursery: trio.Nursery, loadgen: Path, server: LyingServer, op: str, seconds: float
) -> tuple[int, str, str]:
    """The generator's status, output and complaint, from one connection with four requests outstanding."""
    listeners: list[trio.SocketListener] = await nursery.start(
        partial(trio.serve_tcp, server.serve, 0, host="127.0.0.1")
    )
    port = listeners[0].socket.getsockname()[1]
    options = ["--op", op, "--port", str(port), "--connections", "1", "--depth", "4"]
    finished = await trio.run_process(
        [str(loadgen), *options, "--lead-in", "0", "--seconds", str(seconds)],
        check=False,
        capture_stdout=True,
        capture_stderr=True,
    )
    return finished.returncode, finished.stdout.decode(), finished.stderr.decode()


@pytest.mark.parametrize("op", ["ping", "getData", "setData", "mixed"])
async def test_an_honest_server_gets_a_figure(nursery: trio.Nursery, loadgen: Path, op: str) -> None:
    """Right answers are counted, and each of them is in the histogram."""
    status, output, complaint = await run_against(nursery, loadgen, LyingServer(), op, seconds=0.1)

    assert (status, complaint) == (0, "")
    result = json.loads(output)
    assert result["requests"] > 0
    assert sum(count for window in result["windows"] for _, count in window) == result["requests"]
    nursery.cancel_scope.cancel()


def put(form: str, at: int, value: int) -> Lie:
    return lambda reply: struct.pack_into(form, reply, at, value)


@pytest.mark.parametrize(
    ("op", "about", "lie", "complaint"),
    [
        pytest.param("getData", GET_DATA, put(">i", 0, 12345), "xid 12345", id="xid"),
        pytest.param("getData", GET_DATA, put(">q", 4, 1), "zxid 0x1 after", id="zxid goes back"),
        pytest.param("getData", GET_DATA, put(">i", 12, -101), "error -101", id="error"),
        pytest.param("ping", PING, lambda reply: reply.append(0), "1 bytes, expected 0", id="too long"),
        pytest.param("getData", GET_DATA, lambda reply: reply.pop(), "body of", id="too short"),
        pytest.param("getData", GET_DATA, put(">b", 16 + 4 + 50, 0), "never written", id="other data"),
        pytest.param("mixed", GET_DATA, put(">q", 16 + 4, 99999), "data of version 99999", id="stale data"),
        pytest.param("setData", SET_DATA, put(">i", 16 + 32, 99), "version 99", id="version"),
        pytest.param("ping", PING, lambda reply: reply.clear(), "a reply of 0 bytes", id="empty frame"),
        pytest.param("ping", PING, put(">i", 0, -1), "an event that nobody asked for", id="unasked event"),
    ],
)
async def test_one_lie_ends_the_run(
    nursery: trio.Nursery, loadgen: Path, op: str, about: int, lie: Lie, complaint: str
) -> None:
    """A single wrong reply among right ones is found and named."""
    status, output, complained = await run_against(nursery, loadgen, LyingServer(about, lie), op, seconds=60)

    assert (status, output) == (2, "")
    assert complained.startswith("loadgen: connection 0: ")
    assert complaint in complained
    nursery.cancel_scope.cancel()
