"""What `triokeeper crosscheck` adds to each request of a client: the same requests with it and without.

    python -m bench.crosscheck --requests 2000

One client asks one thing after the other, so a request's time is all there is. The direct way and the one
through the cross-check take turns, so that both see the same machine.
"""

import statistics
import sys
import time

import click

from support.crosschecks import start_crosscheck
from support.servers import start_triokeeper
from support.session_client import Request, SessionClient, create, get_data, set_data

SESSION_MS = 30_000
TURN = 50  # requests before it is the other's turn
ADDED_MS_MAX = 1.0


def ask(client: SessionClient, request: Request) -> list[float]:
    """The milliseconds of each of a turn's requests."""
    spent = []
    for _ in range(TURN):
        began = time.perf_counter()
        client.call(request)
        spent.append((time.perf_counter() - began) * 1000)
    return spent


@click.command()
@click.option("--requests", default=2000, show_default=True, help="Of each kind, each way.")
def main(requests: int) -> None:
    """Print medians; the exit code is 1 if the cross-check adds a millisecond or more to one of them."""
    with (
        start_triokeeper() as first,
        start_triokeeper() as second,
        start_crosscheck(first.host_port, second.host_port) as check,
        SessionClient.open(first.port, SESSION_MS) as direct,
        SessionClient.open(int(check.hosts.rpartition(":")[2]), SESSION_MS) as through,
    ):
        direct.call(create("/direct", b"x" * 100))
        through.call(create("/through", b"x" * 100))
        is_good = True
        for name, kind in (("getData", get_data), ("setData", lambda path: set_data(path, b"x" * 100))):
            times: tuple[list[float], list[float]] = [], []
            for _ in range(requests // TURN):
                times[0].extend(ask(direct, kind("/direct")))
                times[1].extend(ask(through, kind("/through")))
            plain, crossed = map(statistics.median, times)
            print(
                f"{name}: {plain:.3f} ms, through the cross-check {crossed:.3f} ms: {crossed - plain:+.3f} ms"
            )
            is_good &= crossed - plain < ADDED_MS_MAX
        through.close()
        direct.close()
    print(check.lines[-1])
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
