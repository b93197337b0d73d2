"""Nodes of every kind, and writes of every kind under load, to fill a data directory with."""

import random
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha1
from threading import Event
from typing import Final

import attrs

from support import session_client as wire
from support.session_client import ALL_PERMISSIONS, OPEN_ACL, Acl, Request, SessionClient
from support.super_user import SUPER

TOP: Final = "/exchange"
LOAD: Final = f"{TOP}/load"
QUOTAS: Final = f"{TOP}/quotas"

SESSION_MS: Final = 120_000
TTL_MS: Final = 3_600_000
DISTINCT_ACLS: Final = 300
DATA_BYTES_MAX: Final = 900_000  # a request must stay below jute.maxbuffer

_DIRECTORIES: Final = 40
_NAMES: Final = 12
_WINDOW: Final = 24
_SEQUENTIAL_TTL: Final = 6
_LIMITS: Final = "zookeeper_limits"
_STATS: Final = "zookeeper_stats"
_UNICODE_NAMES: Final = ("ünïcødé", "日本語", "кириллица", "with space", "...", "%2f", "quo'te\"s", "x" * 200)


def digest_acl(user: str, permissions: int = ALL_PERMISSIONS) -> Acl:
    """What `digest` stores for a user whose password is "secret"."""
    hashed = b64encode(sha1(f"{user}:secret".encode()).digest()).decode()
    return ((permissions, "digest", f"{user}:{hashed}"),)


def open_as(user_and_password: bytes, port: int) -> SessionClient:
    client = SessionClient.open(port, SESSION_MS)
    authenticate(client, user_and_password)
    return client


def authenticate(client: SessionClient, user_and_password: bytes = SUPER) -> None:
    """Identities belong to a connection: to be repeated after `attach`."""
    assert client.call(wire.add_digest_auth(user_and_password.decode())).err == 0


# -- one of each


def catalogue() -> Iterator[Request]:
    """Nodes of every kind, and histories of every kind. Some of the requests fail, as they should."""
    yield wire.create(TOP, None)
    for area in ("data", "names", "seq", "kinds", "acls", "history", "quotas", "load"):
        yield wire.create(f"{TOP}/{area}", area.encode())
    yield from _data()
    yield from _kinds()
    yield from _acls()
    yield from _history()
    yield from _quotas()
    for number in range(_DIRECTORIES):
        yield wire.create(f"{LOAD}/{number}", b"")


def _data() -> Iterator[Request]:
    contents = {"null": None, "empty": b"", "zeros": bytes(64), "large": b"\xa5" * DATA_BYTES_MAX}
    for name, data in contents.items():
        yield wire.create(f"{TOP}/data/{name}", data)
    yield wire.create(f"{TOP}/data/emptied", b"full")
    yield wire.set_data(f"{TOP}/data/emptied", None)
    for name in _UNICODE_NAMES:
        yield wire.create(f"{TOP}/names/{name}", name.encode())
        yield wire.create(f"{TOP}/names/{name}/{name}", name.encode())


def _kinds() -> Iterator[Request]:
    for number in range(12):
        flags = wire.SEQUENTIAL + (wire.EPHEMERAL if number % 3 == 0 else 0)
        yield wire.create2(f"{TOP}/seq/n-", b"%d" % number, flags=flags)
    yield wire.delete(f"{TOP}/seq/n-0000000004")
    yield wire.create_container(f"{TOP}/kinds/container", b"never used")
    yield wire.create_container(f"{TOP}/kinds/used", b"in use", acl=digest_acl("container"))
    yield wire.create(f"{TOP}/kinds/used/child", b"")
    yield wire.create_ttl(f"{TOP}/kinds/ttl", b"", TTL_MS)
    yield wire.create_ttl(f"{TOP}/kinds/ttl-", b"", TTL_MS, flags=_SEQUENTIAL_TTL)
    yield wire.create_ttl(f"{TOP}/kinds/ttl-", b"", (1 << 40) - 1, flags=_SEQUENTIAL_TTL)
    yield wire.create(f"{TOP}/kinds/ephemeral", b"mine", flags=wire.EPHEMERAL)
    yield wire.create(f"{TOP}/kinds/ephemeral/child", b"refused: an ephemeral node has no children")


def _acls() -> Iterator[Request]:
    acls: list[Acl] = [
        OPEN_ACL,
        ((1, "world", "anyone"),),
        ((ALL_PERMISSIONS, "ip", "127.0.0.1"), (1, "ip", "10.0.0.0/8")),
        ((ALL_PERMISSIONS, "auth", ""),),
        (*digest_acl("one", 3), *digest_acl("two", 31), (16, "world", "anyone")),
        *(digest_acl(f"user{number}", 1 + number % 31) for number in range(DISTINCT_ACLS)),
    ]
    for number, acl in enumerate(acls):
        yield wire.create(f"{TOP}/acls/{number}", b"", acl=acl)
        if number % 7 == 0:
            yield wire.set_acl(f"{TOP}/acls/{number}", acls[-1 - number])
    yield wire.create(f"{TOP}/acls/refused", b"", acl=((31, "nobody", "knows"),))


def _history() -> Iterator[Request]:
    path = f"{TOP}/history"
    for number in range(7):
        yield wire.set_data(path, b"version %d" % number)
        yield wire.set_acl(path, OPEN_ACL)
        yield wire.create(f"{path}/n{number}", b"")
        yield wire.set_data(f"{path}/n{number}", b"", 5)  # refused: bad version
        yield wire.delete(path)  # refused: not empty
    yield wire.delete(f"{path}/n3")
    yield wire.delete(f"{path}/n3")  # refused: no node
    yield wire.multi([wire.create(f"{path}/m", b""), wire.set_data(path, b"m"), wire.delete(f"{path}/n0")])
    yield wire.multi([wire.check(path, 8), wire.create2(f"{path}/m/m", b"")])
    yield wire.multi([wire.create(f"{path}/undone", b""), wire.delete(f"{path}/missing")])  # refused
    yield wire.create(f"{path}/m", b"")  # refused: exists


def _quotas() -> Iterator[Request]:
    yield wire.create("/zookeeper/quota/exchange", b"")
    yield wire.create("/zookeeper/quota/exchange/quotas", b"")
    for number in range(3):
        path, below = f"{QUOTAS}/q{number}", f"/zookeeper/quota{QUOTAS}/q{number}"
        yield wire.create(path, b"before the quota")
        yield wire.create(below, b"")
        yield wire.create(f"{below}/{_LIMITS}", b"count=5,bytes=100=;byteHardLimit=-1;countHardLimit=-1")
        yield wire.create(f"{below}/{_STATS}", b"count=1,bytes=16")
        yield wire.create(f"{path}/after", b"after the quota")
    yield wire.delete(f"/zookeeper/quota{QUOTAS}/q2/{_LIMITS}")
    # Both, as zkCli does: statistics without a limit stay as they were when it went, and replayed over a
    # snapshot that already holds what was created later they are another number, in both servers.
    yield wire.delete(f"/zookeeper/quota{QUOTAS}/q2/{_STATS}")


# -- load


@attrs.define(eq=False)
class LoadWriter:
    """A client that writes anything anywhere below LOAD and QUOTAS, together with others."""

    rng: random.Random
    client: SessionClient
    name: str
    is_super: bool
    renews_session: bool = True
    replies: int = 0
    refusals: int = 0
    failure: Exception | None = None
    _serial: int = 0

    def run(self, stop: Event) -> None:
        """Write until told to stop; then every write has been answered. The body of a thread."""
        try:
            while not stop.is_set():
                self._burst()
        except Exception as failure:  # kept for the thread that waits for us
            self.failure = failure

    def _burst(self) -> None:
        for reply in self.client.call_all([self._draw() for _ in range(self.rng.randint(1, _WINDOW))]):
            self.replies += 1
            self.refusals += reply.err != 0
        if self.renews_session and self.rng.random() < 0.01:
            self._renew_session()

    def _renew_session(self) -> None:
        self.client.close()
        self.client = SessionClient.open(self.client.port, SESSION_MS)
        self.greet()

    def greet(self) -> None:
        if self.is_super:
            authenticate(self.client)

    def _draw(self) -> Request:
        draw = self.rng.random()
        if draw < 0.12:
            return wire.multi([self._draw_one() for _ in range(self.rng.randint(1, 4))])
        if draw < 0.24:
            return wire.set_acl(self._path(), self._acl())
        return self._draw_one()

    def _draw_one(self) -> Request:
        """What may also be part of a multi."""
        path, data, acl = self._path(), self._data(), self._acl()
        makers: dict[Callable[[], Request], int] = {
            lambda: wire.create(path, data, acl=acl): 10,
            lambda: wire.create2(path, data, acl=acl): 10,
            lambda: wire.create(f"{path}/deep", data): 4,
            lambda: wire.delete(f"{path}/deep"): 3,
            lambda: wire.delete(path): 14,
            lambda: wire.set_data(path, data): 20,
            lambda: wire.create2(f"{path}-e", data, flags=wire.EPHEMERAL, acl=acl): 6,
            lambda: wire.delete(f"{path}-e"): 4,
            lambda: wire.create2(f"{path}-", data, flags=wire.SEQUENTIAL): 2,
            lambda: wire.create_container(f"{path}-k", data): 2,
            lambda: wire.create_ttl(f"{path}-t", data, TTL_MS): 2,
            lambda: wire.delete(f"{path}-{self.rng.choice('kt')}"): 3,
        }
        (make,) = self.rng.choices(list(makers), list(makers.values()))
        return make()

    def _path(self) -> str:
        directory = f"{LOAD}/{self.rng.randrange(_DIRECTORIES)}"
        if self.rng.random() < 0.1:
            directory = f"{QUOTAS}/q{self.rng.randrange(3)}"
        return f"{directory}/c{self.rng.randrange(_NAMES)}"

    def _data(self) -> bytes | None:
        return None if self.rng.random() < 0.05 else self.rng.randbytes(self.rng.randrange(200))

    def _acl(self) -> Acl:
        """Often one that the server has never seen."""
        draw = self.rng.random()
        if draw < 0.5:
            return OPEN_ACL
        if draw < 0.7:
            return digest_acl(f"user{self.rng.randrange(DISTINCT_ACLS)}")
        self._serial += 1
        return (*digest_acl(f"{self.name}-{self._serial}"), *OPEN_ACL)
