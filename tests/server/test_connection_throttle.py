"""The token bucket in front of the handshake, and its early dropping."""

from random import Random

import pytest

from server.connection_throttle import ConnectionThrottle
from server.pipeline import Limits
from tests.server.one_server import Client, OneServer


class Always(Random):
    """Chance that always turns out the same."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self._value = value

    def random(self) -> float:
        return self._value


def test_without_tokens_everybody_is_admitted() -> None:
    """That is the default."""
    throttle = ConnectionThrottle(0)
    assert all(throttle.admits(3, 0) for _ in range(1000))


def test_tokens_run_out_and_come_back_with_time() -> None:
    """Two every ten milliseconds, five at most."""
    throttle = ConnectionThrottle(5, fill_ms=10, fill_count=2)
    assert [throttle.admits(1, 1000) for _ in range(6)] == [True] * 5 + [False]
    assert not throttle.admits(1, 1009)
    assert [throttle.admits(1, 1010) for _ in range(3)] == [True, True, False]
    assert [throttle.admits(1, 9000) for _ in range(6)] == [True] * 5 + [False]


def test_weights_take_several_tokens_or_none() -> None:
    """A handshake that is refused leaves the tokens to a lighter one."""
    throttle = ConnectionThrottle(4)
    assert throttle.admits(3, 0)
    assert not throttle.admits(3, 0)
    assert throttle.admits(1, 0)


def test_the_chance_to_be_dropped_grows_while_the_bucket_is_empty() -> None:
    """Once in every freeze time, and it shrinks once the bucket is full again."""
    throttle = ConnectionThrottle(
        2, fill_ms=1000, freeze_ms=100, drop_increase=0.4, drop_decrease=0.1, random=Always(0.9)
    )
    throttle.admits(2, 1000)
    chances = []
    for now_ms in (1001, 1050, 1101, 1102, 1203, 1304, 1405):
        throttle.admits(2, now_ms)
        chances.append(throttle.drop_chance)
    assert chances == pytest.approx([0.0, 0.0, 0.4, 0.4, 0.8, 1.0, 1.0])
    throttle.random = Always(0.95)
    assert not throttle.admits(1, 2100)  # one token is back, but chance is against it
    assert throttle.drop_chance == pytest.approx(1.0)
    assert throttle.admits(1, 3100)  # the bucket is full, and the chance is less now
    assert throttle.drop_chance == pytest.approx(0.9)


def test_the_chance_shrinks_earlier_with_a_decrease_ratio() -> None:
    """Half of the tokens may be taken."""
    throttle = ConnectionThrottle(4, freeze_ms=0, fill_ms=10_000, decrease_ratio=0.5, random=Always(1.0))
    throttle.drop_chance = 0.5
    throttle.admits(2, 1)
    throttle.admits(0, 2)
    assert throttle.drop_chance == pytest.approx(0.496)
    throttle.admits(1, 3)
    throttle.admits(0, 4)
    assert throttle.drop_chance == pytest.approx(0.494)


def test_who_is_not_admitted_is_not_answered() -> None:
    """The connection is closed; renewing a session costs tokens too."""
    server = OneServer(limits=Limits())
    server.pipeline.throttle = ConnectionThrottle(5, fill_ms=1000)
    server.pipeline.state.handshake_weights = (3, 2)
    client = server.connect()
    server.connect(session_of=client)
    refused = Client(server)
    refused.send_raw(bytes(44))
    assert refused.is_closed
    assert refused.receive() == b""
    assert server.pipeline.stats.connections_rejected == 1
