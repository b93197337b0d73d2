"""One question in four letters to a server, and its answer, over a plain blocking socket."""

import socket
import time

SECONDS_MAX = 5.0  # to connect, and again for the whole answer
ANSWER_BYTES_MAX = 1 << 20


def ask(address: str, port: int, word: str) -> str:
    """The whole answer; OSError if nobody gives one in time. Ends the sending side first, as `nc` does."""
    host = address.encode()  # as text it would be encoded by a codec that takes long to import
    with socket.create_connection((host, port), timeout=SECONDS_MAX) as connection:  # type: ignore[arg-type]
        connection.sendall(word.encode())
        connection.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + SECONDS_MAX
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
            seconds = deadline - time.monotonic()
            if seconds <= 0 or len(answer) > ANSWER_BYTES_MAX:
                raise TimeoutError(f"no end of the answer to {word}")
            connection.settimeout(seconds)
    return answer.decode(errors="replace")
