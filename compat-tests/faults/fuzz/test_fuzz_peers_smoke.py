"""Strangers at the ports that servers have for each other; `make fuzz-peers` is the long version."""

import pytest

from faults.fuzz.peers import fuzz_peers

pytestmark = pytest.mark.triokeeper_alone

ROUNDS = 250


@pytest.mark.timeout(240)
def test_strangers_depose_nobody_and_throw_nobody_out() -> None:
    """No resignation, no lost follower, no client that notices, no growth."""
    outcome = fuzz_peers(ROUNDS, seed=1, seconds=90)
    print(outcome)
    assert not outcome.faults
