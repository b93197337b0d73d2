"""Is this one server ready? A plain socket and nothing else: health checks run every few seconds."""

import socket
import time

from client.status.answers import ServerFacts, parse_srvr
from client.status.report import Verdict

ANSWER_BYTES_MAX = 64 * 1024


def ready_verdict(host: str, port: int, timeout_s: float) -> Verdict:
    """ALL_IN if it serves as a part of a quorum, NO_QUORUM if it is up without, else UNREACHABLE."""
    try:
        facts = _ask(host, port, timeout_s)
    except (OSError, UnicodeError):  # the latter: no host can have this name
        return Verdict.UNREACHABLE
    return Verdict.ALL_IN if facts.is_serving else Verdict.NO_QUORUM


def _ask(host: str, port: int, timeout_s: float) -> ServerFacts:
    deadline = time.monotonic() + timeout_s
    answer = b""
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.sendall(b"srvr")
        while len(answer) < ANSWER_BYTES_MAX:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            chunk = connection.recv(4096)
            if not chunk:
                break
            answer += chunk
    return parse_srvr(answer.decode(errors="replace"))
