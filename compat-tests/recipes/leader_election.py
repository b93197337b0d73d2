"""Three Kazoo processes elect a leader; when it is killed, the next one takes over.

    python compat-tests/recipes/leader_election.py 127.0.0.1:2181

Each candidate makes an ephemeral sequential node /election/node_ and watches the one before its own with a
DataWatch; the candidate whose node is the first leads. `kill -9` ends two leaders, one after the other.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Event

import attrs
from kazoo.client import KazooClient
from kazoo.protocol.states import ZnodeStat

ELECTION = "/election"
CANDIDATES = 3
SESSION_SECONDS = 4.0


class NoSuccession(Exception):
    """A candidate did not do what its place in the queue asked for."""


# -- one candidate, a process of its own


def be_a_candidate(hosts: str, session_seconds: float) -> None:
    """Queue up, say the node's name, say so when it leads, then lead until killed."""
    client = KazooClient(hosts, timeout=session_seconds)
    client.start()
    path = client.create(f"{ELECTION}/node_", ephemeral=True, sequence=True, makepath=True)
    own = path.rpartition("/")[2]
    print(own, flush=True)
    while (before := predecessor(client, own)) is not None:
        wait_until_gone(client, f"{ELECTION}/{before}")
    print("leads", flush=True)
    Event().wait()


def predecessor(client: KazooClient, own: str) -> str | None:
    """The candidate that is next in line before this one."""
    queue = sorted(client.get_children(ELECTION))
    at = queue.index(own)
    return queue[at - 1] if at > 0 else None


def wait_until_gone(client: KazooClient, path: str) -> None:
    gone = Event()

    @client.DataWatch(path)  # type: ignore[untyped-decorator]
    def look(_data: bytes | None, stat: ZnodeStat | None) -> bool:
        if stat is None:
            gone.set()
        return stat is not None  # False ends the watch

    gone.wait()


# -- the three of them


@attrs.define
class Candidate:
    process: subprocess.Popen[str]
    node: str

    def wait_to_lead(self) -> None:
        said = self._hear()
        if said != "leads":
            raise NoSuccession(f"{self.node} said {said!r} when it should lead")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def candidate(hosts: str, session_seconds: float) -> Iterator[Candidate]:
    command = [sys.executable, __file__, hosts, "candidate", str(session_seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Candidate(process, process.stdout.readline().strip())
        finally:
            process.kill()


def run_election(hosts: str, session_seconds: float = SESSION_SECONDS) -> list[str]:
    """The nodes of those who led, in that order; raises NoSuccession."""
    with ExitStack() as running:
        queue = [running.enter_context(candidate(hosts, session_seconds)) for _ in range(CANDIDATES)]
        queue.sort(key=lambda each: each.node)
        for leader in queue:
            leader.wait_to_lead()
            if leader is not queue[-1]:
                leader.kill()
        return [each.node for each in queue]


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case [hosts]:
            print("led, one after the other:", *run_election(hosts))
        case [hosts, "candidate", session_seconds]:
            be_a_candidate(hosts, float(session_seconds))
        case _:
            sys.exit("give the servers, such as 127.0.0.1:2181")


if __name__ == "__main__":
    main(sys.argv[1:])
