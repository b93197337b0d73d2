"""Health probes as people write them, `echo ruok | nc`, many times over: none may get an empty answer.

A probe's newline often arrives when the server has answered and closed already. A server that closes before
it has read the newline resets the connection, and a reset can cost the answer: it depends on the probe and
on the network whether it does. So a probe that sees a reset has failed here.
"""

import argparse
import errno
import socket
import sys
import threading
import time
from collections import Counter
from itertools import islice

from support.servers import HOST, start_server

ANSWER = b"imok"
THREADS = 4
LATE_SECONDS = 0.0005  # about when the server closes
SECONDS_MAX = 20.0
RESET = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)


def together(sock: socket.socket) -> None:
    """As a shell's `echo ruok >/dev/tcp/...` does: one packet."""
    sock.sendall(b"ruok\n")


def half_closed(sock: socket.socket) -> None:
    """As `nc -N` does: the end of input is passed on."""
    sock.sendall(b"ruok\n")
    sock.shutdown(socket.SHUT_WR)


def late_newline(sock: socket.socket) -> None:
    """As a script does that prints the word and then the newline."""
    sock.sendall(b"ruok")
    time.sleep(LATE_SECONDS)
    sock.sendall(b"\n")
    time.sleep(LATE_SECONDS)  # so that a reset, if it comes, is there before we read


WAYS = (together, half_closed, late_newline)


def probe(port: int, number: int) -> bytes:
    """The answer to one probe; the way it is sent changes from one to the next."""
    answer = b""
    with socket.create_connection((HOST, port), timeout=SECONDS_MAX) as sock:
        try:
            WAYS[number % len(WAYS)](sock)
            while data := sock.recv(100):
                answer += data
        except OSError as failure:
            if failure.errno not in RESET:
                raise
            answer += b" reset"
    return answer


def probe_often(port: int, count: int) -> Counter[tuple[str, bytes]]:
    """How often each way got each answer."""
    numbers, lock = iter(range(count)), threading.Lock()
    answers: Counter[tuple[str, bytes]] = Counter()

    def work() -> None:
        while True:
            with lock:
                batch = list(islice(numbers, 100))
            if not batch:
                return
            told = Counter((WAYS[number % len(WAYS)].__name__, probe(port, number)) for number in batch)
            with lock:
                answers.update(told)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--server", choices=["triokeeper", "reference"], default="triokeeper")
    arguments = parser.parse_args()
    with start_server(arguments.server) as server:
        began = time.monotonic()
        answers = probe_often(server.port, arguments.count)
    for (way, answer), count in sorted(answers.items()):
        print(f"{way:14} {answer!r:10} {count:7}")
    wrong = sum(count for (_, answer), count in answers.items() if answer != ANSWER)
    print(f"{arguments.count} probes in {time.monotonic() - began:.0f} s, {wrong} without the answer")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
