"""How long a server takes from the start of its process to the first answer a client gets."""

import selectors
import socket
import struct
import time
from collections.abc import Sequence
from itertools import cycle

from support.servers import HOST, Server

START_SECONDS_MAX = 60.0
RETRY_SECONDS, OVERTAKE_SECONDS = 0.002, 0.05

# A session of four seconds and, without waiting for it, one request: exists("/"), or setData("/", "").
CONNECT_REQUEST = struct.pack(">iiqiqi16s?", 45, 0, 0, 4000, 0, 16, b"", False)
EXISTS_ROOT = struct.pack(">iiii1s?", 14, 1, 3, 1, b"/", False)
SET_ROOT = struct.pack(">iiii1sii", 21, 1, 5, 1, b"/", 0, -1)
ANSWER_BYTES = (4 + 37) + (4 + 16 + 68)  # the ConnectResponse, then header and Stat: the same for both


def cold_start_seconds(server: Server) -> float:
    """From the start of the process to the answer of the first request of a session."""
    began = time.monotonic()
    server.spawn()
    wait_for_answer([server], began + START_SECONDS_MAX, EXISTS_ROOT)
    return time.monotonic() - began


def wait_for_answer(servers: Sequence[Server], deadline: float, request: bytes) -> None:
    """Return once anyone was answered, by any of the servers, which are asked in turns.

    A server that is about to serve may accept a connection and leave it hanging. So a silent attempt is
    neither waited for alone nor given up: another one joins it every OVERTAKE_SECONDS.
    """
    with selectors.DefaultSelector() as attempts:
        try:
            for server in cycle(servers):
                if time.monotonic() > deadline or server.has_ended:
                    raise server.failure("ended or answers nobody")
                attempt = begin_attempt(server.port, request)
                if attempt is not None:
                    attempts.register(attempt, selectors.EVENT_READ)
                if attempts.get_map() and any_answered(attempts, OVERTAKE_SECONDS):
                    return
                time.sleep(RETRY_SECONDS)  # refused or turned away: a rush would overflow the backlog
        finally:
            for key in list(attempts.get_map().values()):
                as_socket(key).close()


def begin_attempt(port: int, request: bytes) -> socket.socket | None:
    try:
        attempt = socket.create_connection((HOST, port), timeout=1)
        attempt.sendall(CONNECT_REQUEST + request)
    except OSError:
        return None
    return attempt


def any_answered(attempts: selectors.BaseSelector, seconds: float) -> bool:
    for key, _ in attempts.select(seconds):
        try:
            answer = as_socket(key).recv(ANSWER_BYTES, socket.MSG_PEEK)
        except OSError:
            answer = b""
        if len(answer) == ANSWER_BYTES:
            return True
        if not answer:  # turned away: the server is not ready
            attempts.unregister(key.fileobj)
            as_socket(key).close()
    return False


def as_socket(key: selectors.SelectorKey) -> socket.socket:
    assert isinstance(key.fileobj, socket.socket)
    return key.fileobj
