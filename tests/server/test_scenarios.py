"""The files in testdata/, played against a server in memory: see scenario.py for their language.

`pytest --rewrite` writes down what happens now; whoever commits the result has read it.
"""

from pathlib import Path

import pytest

from server.acls import AccessRules, DigestScheme, IpScheme
from server.pipeline import Limits
from tests.server.one_server import Client, OneServer, smallest_slices
from tests.server.scenario import play

TESTDATA = Path(__file__).with_name("testdata")


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_conversation_goes_as_written_down(path: Path, request: pytest.FixtureRequest) -> None:
    """Every reply, event and close comes as the file says, and in that order."""
    written = path.read_text()
    heard = play(written, ServerInMemory())
    if request.config.getoption("--rewrite"):
        path.write_text(heard)
    else:
        assert heard.splitlines() == written.splitlines()


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_conversation_goes_the_same_way_in_the_smallest_slices(path: Path) -> None:
    """Whatever can be interrupted is interrupted after every step; no reply, event or order tells."""
    written = path.read_text()
    with smallest_slices():
        heard = play(written, ServerInMemory())
    assert heard.splitlines() == written.splitlines()


class ServerInMemory:
    """A OneServer behind the commands of the scenario language."""

    def __init__(self) -> None:
        self.restart({})

    def restart(self, settings: dict[str, str]) -> None:
        self._is_holding = False
        self._wires: list[WireInMemory] = []
        self._server = OneServer(
            limits=_limits(settings),
            rules=_rules(settings),
            enforce_quota=settings.pop("enforceQuota", "") == "true",
            ttl_nodes=settings.pop("extendedTypesEnabled", "") == "true",
            reconfig_enabled=settings.pop("reconfigEnabled", "") == "true",
        )
        assert not settings, f"what are {settings}?"

    def open_wire(self, address: str) -> "WireInMemory":
        wire = WireInMemory(self, Client(self._server, address))
        self._wires.append(wire)
        return wire

    def command(self, words: list[str]) -> None:
        match words:
            case ["hold"]:
                self._is_holding = True
            case ["release", count]:
                self._server.release(int(count))
            case ["release"]:
                self._is_holding = False
            case ["pass", ms]:
                self._server.pass_time(int(ms))
            case _:
                raise ValueError(f"{words} is no command")
        self.settle()

    def settle(self) -> None:
        """Do all that can be done, and let it arrive."""
        self._go_on()
        while sum(wire.flush() for wire in self._wires):
            self._go_on()

    def _go_on(self) -> None:
        if self._is_holding:
            self._server.work_off()
        else:
            self._server.settle()


class WireInMemory:
    """A connection to a ServerInMemory."""

    def __init__(self, server: ServerInMemory, client: Client) -> None:
        self._server = server
        self._client = client
        self._arrived = b""

    def send(self, data: bytes) -> None:
        if not self._client.is_closed:
            self._client.connection.received(data)
        self._server.settle()

    def flush(self) -> bool:
        data = self._client.receive()
        self._arrived += data
        return data != b""

    def receive(self) -> bytes:
        arrived, self._arrived = self._arrived, b""
        return arrived

    def is_closed(self) -> bool:
        return self._client.is_closed


def _rules(settings: dict[str, str]) -> AccessRules:
    super_digest = settings.pop("DigestAuthenticationProvider.superDigest", None)
    schemes = {"ip": IpScheme(), "digest": DigestScheme(super_digest=super_digest)}
    return AccessRules(schemes=dict(schemes), skip_acl=settings.pop("skipACL", "no") == "yes")


def _limits(settings: dict[str, str]) -> Limits:
    schemes = settings.pop("enforce.auth.schemes", "")
    settings.pop("enforce.auth.enabled", "")
    return Limits(
        outstanding_max=int(settings.pop("globalOutstandingLimit", "1000")),
        throttled_op_wait_ms=int(settings.pop("throttled_op_wait_time", "0")),
        large_request_threshold_bytes=int(settings.pop("largeRequestThreshold", "-1")),
        large_request_bytes_max=int(settings.pop("largeRequestMaxBytes", "104857600")),
        enforced_schemes=frozenset(schemes.split(",") if schemes else ()),
    )
