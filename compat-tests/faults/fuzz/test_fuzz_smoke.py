"""The fuzz, as short as it can be and still say something; `make fuzz` is the long one."""

import pytest

from faults.fuzz.run import fuzz, report

pytestmark = pytest.mark.triokeeper_alone

FRAMES = 20_000


@pytest.mark.timeout(120)
def test_spoilt_frames_and_hostile_clients_hurt_nobody() -> None:
    """No crash, no leak, no wrong answer to a client that behaves."""
    attacked = fuzz(FRAMES, seed=1, seconds=60, rounds=1, scale=0.05)
    print(*attacked.rounds, *report(attacked, FRAMES), *attacked.long_holds, sep="\n")
    assert not attacked.faults
    assert sum(each.spoilt for each in attacked.rounds) >= FRAMES
