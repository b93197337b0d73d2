"""A server under the control of a test: JSON lines on standard input and output (see testing/child.py).

The first line says where clients are served. From then on every line that comes in asks for one thing,
and is answered by one line: `{"ok": ...}` or `{"error": ...}`. The end of the input ends the server.
What the server logs goes to standard error.
"""

import base64
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import trio
import trio.lowlevel

from client.errors import ServerError
from client.paths import InvalidPath
from server.data_tree import data_length_of
from server.ordering import OrderingPipeline
from server.replica import Replica

if TYPE_CHECKING:
    from client.session import Session as ClientSession

SYSTEM = b"/zookeeper"
CLOSING_SECONDS_MAX = 5.0
POLL_SECONDS = 0.001


async def answer_tests(answers: int, server: Replica, port: int) -> None:
    """Answer requests until the input ends, then stop the server as SIGTERM does.

    The end of the input ends the server at once, whatever it is about to answer: nobody is there any more.
    """
    sending, receiving = trio.open_memory_channel[bytes](1)
    async with trio.lowlevel.FdStream(os.dup(0)) as requests, trio.open_nursery() as nursery:
        nursery.start_soon(_answer, answers, Control(server, port), port, receiving)
        begun: list[bytes] = []
        async for data in requests:
            *ends, rest = bytes(data).split(b"\n")
            for end in ends:
                await sending.send(b"".join([*begun, end]))
                begun.clear()
            begun.append(rest)
        nursery.cancel_scope.cancel()
    os.kill(os.getpid(), signal.SIGTERM)


async def _answer(
    answers: int, control: "Control", port: int, requests: trio.MemoryReceiveChannel[bytes]
) -> None:
    async with trio.lowlevel.FdStream(answers) as replies:
        with suppress(trio.BrokenResourceError):  # nobody listens; the requests end as well
            await replies.send_all(json.dumps({"port": port}).encode() + b"\n")
            async for line in requests:
                await replies.send_all(json.dumps(await control.answer(line)).encode() + b"\n")


class Control:
    """What a test can ask of a server."""

    def __init__(self, server: Replica, port: int) -> None:
        self._server = server
        self._port = port
        self._actions: Mapping[str, Callable[..., Awaitable[Any]]] = {
            "state": self._state,
            "expire": self._expire,
            "settle": self._settle,
            "judge": self._judge,
            "sessions": self._sessions,
            "tree": self._tree,
            "load": self._load,
            "remove": self._remove,
        }

    async def answer(self, line: bytes) -> dict[str, object]:
        request = json.loads(line)
        action = self._actions[request.pop("do")]
        try:
            return {"ok": await action(**request)}
        except (ServerError, Refused, trio.TooSlowError) as failure:
            return {"error": str(failure) or type(failure).__name__}

    async def _state(self) -> dict[str, object]:
        pipeline = self._server.pipeline
        return {"mode": pipeline.mode, "is_serving": pipeline.is_serving and not pipeline.is_read_only}

    async def _expire(self, session: int) -> None:
        """End a session now, as if its time were up."""
        pipeline = self._server.pipeline
        if not isinstance(pipeline, OrderingPipeline):
            raise Refused(f"sessions expire at the leader, and this server's mode is {pipeline.mode}")
        self._server.begin_batch()
        known = pipeline.expire_session(session)
        self._server.end_batch()
        if not known:
            raise Refused(f"there is no session 0x{session & 0xFFFFFFFFFFFFFFFF:x}")
        await self._until_closed(pipeline)

    async def _settle(self) -> None:
        """Read what clients have sent so far; read after a pause, it would count as heard then."""
        for _ in range(2):  # the first lets the front's task wake up, the second waits until it has run
            await trio.lowlevel.checkpoint()

    async def _judge(self) -> None:
        """Expire the sessions that were not heard for their whole timeout; the server has been stopped."""
        pipeline = self._server.pipeline
        self._server.begin_batch()
        pipeline.expire_sessions()
        self._server.end_batch()
        if isinstance(pipeline, OrderingPipeline):
            await self._until_closed(pipeline)

    async def _until_closed(self, pipeline: OrderingPipeline) -> None:
        """Wait until sessions that have expired are gone, with their nodes: a test looks at the tree next.

        A leader without a quorum does not get that far, and is not waited for longer than a while.
        """
        for _ in range(int(CLOSING_SECONDS_MAX / POLL_SECONDS)):
            if not any(session.is_closing for session in pipeline.sessions.by_id.values()):
                break
            await trio.sleep(POLL_SECONDS)

    async def _sessions(self) -> list[dict[str, object]]:
        tree, connections = self._server.tree, self._server.pipeline.connections
        return [
            {
                "id": session_id,
                "timeout_ms": timeout_ms,
                "address": f"{held.address}:{held.port}" if (held := connections.get(session_id)) else None,
                "ephemerals": sorted(path.decode() for path in tree.ephemerals.get(session_id, ())),
            }
            for session_id, timeout_ms in tree.session_timeouts_ms.items()
        ]

    async def _tree(self, path: str) -> dict[str, str]:
        tree, top = self._server.tree, path.encode()
        if top not in tree.bodies:
            raise Refused(f"there is no node {path}")
        below = top if top.endswith(b"/") else top + b"/"
        return {
            each.decode(): base64.b64encode(_data(body)).decode()
            for each, body in tree.bodies.items()
            if (each == top or each.startswith(below)) and not _is_system(each)
        }

    async def _load(self, nodes: dict[str, str]) -> None:
        """Create nodes with all their parents; those that are there get the data."""
        from server.tree_for_tests import put

        async with self._session() as session:
            for path, encoded in nodes.items():
                try:
                    await put(session, path, base64.b64decode(encoded))
                except InvalidPath as invalid:
                    raise Refused(f"{path!r}: {invalid}") from None

    async def _remove(self, path: str) -> None:
        """Delete a node and all that is below it, even if somebody goes on creating there."""
        from server.tree_for_tests import remove

        async with self._session() as session:
            await remove(session, path)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator["ClientSession"]:
        """A session that may do everything, whatever the ACLs of the tests say."""
        from server.tree_for_tests import connected

        async with connected(f"127.0.0.1:{self._port}") as session:
            self._server.pipeline.connections[session.session_id].ids = (("super", ""),)
            yield session


def _data(body: bytes) -> bytes:
    return body[4 : 4 + data_length_of(body)]


def _is_system(path: bytes) -> bool:
    return path == SYSTEM or path.startswith(SYSTEM + b"/")


class Refused(Exception):
    """The server cannot do what a test asks; the message says why."""
