"""How soon a member that was cut off is back: `python -m bench.cut_off --cut both --seconds 75`.

Each member runs in a network namespace of its own, and a bridge in one more joins them. So packets are lost
as a broken network loses them: silently, in one direction or in both, with all that TCP does about it. A cut
gives a member a hardware address of the other that nobody has. A namespace belongs to a thread and goes with
it.

Needs Linux, root, `ip` (iproute2), and Java for Apache's servers. Waits much and computes little.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Literal, TypeAlias, TypeVar, get_args

import attrs

from support.servers import SMALL_FLAGS, Kind, Server, as_zoo_cfg, prepare_server

Cut: TypeAlias = Literal["both", "outgoing", "incoming", "everybody"]
Who: TypeAlias = Literal["leader", "follower"]
T = TypeVar("T")

CLONE_NEWNET = 0x40000000
SUBNET = "10.231.0"
NOBODYS_MAC = "02:00:00:00:00:99"
POLL_SECONDS = 0.02
SERVING_SECONDS_MAX = 120.0
SETTLE_SECONDS = 3.0
MEMBERS = 3


class Namespace:
    """A network namespace, and the one thread that lives in it; processes started there live in it too."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, initializer=_leave_for_a_network_of_its_own)
        self.tid = self.call(threading.get_native_id)
        self.ip("link", "set", "lo", "up")

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        return self._thread.submit(function, *arguments).result()

    def ip(self, *arguments: str) -> None:
        self.call(_run, "ip", *arguments)

    def close(self) -> None:
        self._thread.shutdown()


def _leave_for_a_network_of_its_own() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "there is no network namespace to be had: run this as root")


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


@attrs.frozen(eq=False)
class Member:
    server_id: int
    namespace: Namespace
    server: Server

    def mode(self) -> str | None:
        return self.namespace.call(lambda: self.server.mode)

    def lose_packets_to(self, others: Sequence[int], *, is_lost: bool) -> None:
        for other in others:
            mac = NOBODYS_MAC if is_lost else _mac(other)
            self.namespace.ip(
                "neigh", "replace", _address(other), "lladdr", mac, "dev", "eth0", "nud", "permanent"
            )


def _address(server_id: int) -> str:
    return f"{SUBNET}.{server_id}"


def _mac(server_id: int) -> str:
    return f"02:00:00:00:01:{server_id:02x}"


class Ensemble:
    """Three members of one kind, each with a network of its own."""

    def __init__(self, kind: Kind, settings: dict[str, object], running: ExitStack) -> None:
        hub = Namespace()
        running.callback(hub.close)
        hub.ip("link", "add", "hub", "type", "bridge")
        hub.ip("link", "set", "hub", "up")
        self.members: dict[int, Member] = {}
        for server_id in range(1, MEMBERS + 1):
            namespace = Namespace()
            running.callback(namespace.close)
            _join(namespace, server_id, hub)
            server = prepare_server(kind, _zoo_cfg(settings), jvm_flags=SMALL_FLAGS)
            (server.data_dir / "myid").write_text(f"{server_id}\n")
            self.members[server_id] = Member(server_id, namespace, server)
            running.callback(server.kill9)
        for member in self.members.values():
            member.lose_packets_to(self.others(member.server_id), is_lost=False)
            member.namespace.call(member.server.spawn)
        for member in self.members.values():
            member.namespace.call(member.server.wait_until_serving)

    def others(self, server_id: int) -> list[int]:
        return [other for other in self.members if other != server_id]

    def leader(self) -> int:
        deadline = time.monotonic() + SERVING_SECONDS_MAX
        while time.monotonic() < deadline:
            for server_id, member in self.members.items():
                if member.mode() == "leader":
                    return server_id
        raise TimeoutError("nobody leads")

    def lose(self, cut: Cut, server_id: int, *, is_lost: bool) -> None:
        if cut in ("both", "outgoing"):
            self.members[server_id].lose_packets_to(self.others(server_id), is_lost=is_lost)
        if cut in ("both", "incoming"):
            for other in self.others(server_id):
                self.members[other].lose_packets_to([server_id], is_lost=is_lost)
        if cut == "everybody":
            for member in self.members.values():
                member.lose_packets_to(self.others(member.server_id), is_lost=is_lost)

    def seconds_until_all_serve(self) -> dict[int, float]:
        """For each member, when it began to serve without a break until the last of them did."""
        began = time.monotonic()
        since: dict[int, float | None] = dict.fromkeys(self.members)
        while time.monotonic() < began + SERVING_SECONDS_MAX:
            for server_id, member in self.members.items():
                if member.mode() is None:
                    since[server_id] = None
                elif since[server_id] is None:
                    since[server_id] = time.monotonic() - began
            known = {server_id: seconds for server_id, seconds in since.items() if seconds is not None}
            if len(known) == MEMBERS and time.monotonic() > began + max(known.values()) + SETTLE_SECONDS:
                return known
            time.sleep(POLL_SECONDS)
        raise TimeoutError(f"not all serve: {since}")


def _join(namespace: Namespace, server_id: int, hub: Namespace) -> None:
    """A cable from the member's eth0 to the bridge."""
    port = f"port{server_id}"
    hub.ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(namespace.tid))
    hub.ip("link", "set", port, "master", "hub", "up")
    namespace.ip("link", "set", "eth0", "address", _mac(server_id))
    namespace.ip("address", "add", f"{_address(server_id)}/24", "dev", "eth0")
    namespace.ip("link", "set", "eth0", "up")


def _zoo_cfg(settings: dict[str, object]) -> str:
    lines = {f"server.{n}": f"{_address(n)}:2888:3888" for n in range(1, MEMBERS + 1)}
    return as_zoo_cfg({"initLimit": 10, "syncLimit": 5, "clientPort": 2181, **settings, **lines})


def measure(
    kind: Kind, cut: Cut, who: Who, seconds: float, settings: dict[str, object], *, shows_logs: bool
) -> dict[str, object]:
    with ExitStack() as running:
        ensemble = Ensemble(kind, settings, running)
        time.sleep(SETTLE_SECONDS)
        leader = ensemble.leader()
        chosen = leader if who == "leader" else ensemble.others(leader)[0]
        ensemble.lose(cut, chosen, is_lost=True)
        time.sleep(seconds)
        serving = [server_id for server_id, member in ensemble.members.items() if member.mode()]
        ensemble.lose(cut, chosen, is_lost=False)
        mended = time.time()
        back = ensemble.seconds_until_all_serve()
        if shows_logs:
            print(f"mended at {time.ctime(mended)}", file=sys.stderr)
            for server_id, member in ensemble.members.items():
                print(f"---- server {server_id}\n{member.server.log_text}", file=sys.stderr)
        return {
            "kind": kind,
            "cut": cut,
            "who": f"{who} {chosen}",
            "seconds": seconds,
            "served before mending": serving,
            "back after": {server_id: round(after, 2) for server_id, after in back.items()},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description="Cut a member off, and see how soon it is back.")
    parser.add_argument("--kind", choices=get_args(Kind), default="triokeeper")
    parser.add_argument("--cut", choices=get_args(Cut), default="both", help="which packets are lost")
    parser.add_argument("--who", choices=get_args(Who), default="leader", help="who is cut off")
    parser.add_argument("--seconds", type=float, default=75.0, help="how long")
    parser.add_argument("--tick-ms", type=int, default=2000)
    parser.add_argument("--logs", action="store_true", help="print the servers' logs to standard error")
    options = parser.parse_args()
    settings = {"tickTime": options.tick_ms}
    result = measure(
        options.kind, options.cut, options.who, options.seconds, settings, shows_logs=options.logs
    )
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
