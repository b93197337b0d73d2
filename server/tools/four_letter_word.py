"""One question in four letters to a server, and its answer, over a plain blocking socket."""

import socket

SECONDS_MAX = 5.0  # to connect, and between two pieces of the answer


def ask(address: str, port: int, word: str) -> str:
    """The whole answer; OSError if nobody gives one. Ends the sending side first, as `nc` does."""
    host = address.encode()  # as text it would be encoded by a codec that takes long to import
    with socket.create_connection((host, port), timeout=SECONDS_MAX) as connection:  # type: ignore[arg-type]
        connection.sendall(word.encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer.decode(errors="replace")
