"""What the fuzz makes of the lines a server logged under attack."""

from faults.fuzz.vitals import faults_in, long_holds_in

HELD = (
    "2026-01-01 10:00:00,000 [myid:] - WARN  [main:loop_meter@108] - "
    "loop_held held_ms=900 cpu_ms={} longest_ms=6 work=request session=0x1 opcode=11 unreported=0"
)
REFUSED = "2026-01-01 10:00:00,000 [myid:] - WARN  [main:client_protocol@1] - frame_refused bytes=5"
BROKEN = "2026-01-01 10:00:00,000 [myid:] - ERROR [main:run@1] - server_failed"


def test_a_turn_is_long_by_its_work_alone() -> None:
    assert long_holds_in("\n".join([HELD.format(100), REFUSED, HELD.format(101)])) == [HELD.format(101)]


def test_faults_are_lines_that_nobody_expects() -> None:
    traceback = "Traceback (most recent call last):"
    assert faults_in("\n".join([HELD.format(500), REFUSED, BROKEN, traceback])) == [BROKEN, traceback]
