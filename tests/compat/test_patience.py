"""Waiting for a server that has not been given the processor."""

from support.patience import Patience


def test_a_limit_runs_while_somebody_looks() -> None:
    now = [100.0]
    patience = Patience(3.0, lambda: now[0])
    looks = 0
    while not patience.is_over:
        now[0] += 0.5
        looks += 1
    assert looks == 7


def test_a_limit_does_not_run_out_in_a_pause_of_the_whole_machine() -> None:
    now = [100.0]
    patience = Patience(3.0, lambda: now[0])
    now[0] += 1800
    assert not patience.is_over
    now[0] += 0.5
    assert not patience.is_over
