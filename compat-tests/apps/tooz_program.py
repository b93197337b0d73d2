"""tooz, OpenStack's coordination library: two members, a group, a lock, a leader; run by test_tooz.py.

python tooz_program.py 127.0.0.1:2181      says what it has done, and waits for a line after `restart`
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from tooz import coordination  # type: ignore[import-not-found,unused-ignore]

WAIT_SECONDS_MAX = 60


def wait_until(is_so: Callable[[], object], *beating: Any) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit("it never became so")
        for member in beating:
            member.run_watchers()
        time.sleep(0.05)


def main(hosts: str) -> None:
    members = [
        coordination.get_coordinator(f"kazoo://{hosts}?timeout=10", name) for name in (b"one", b"other")
    ]
    for member in members:
        member.start(start_heart=True)
    one, other = members
    one.create_group(b"group").get()
    joined = []
    one.watch_join_group(b"group", lambda event: joined.append(event.member_id))
    for member in members:
        member.join_group(b"group").get()
    wait_until(lambda: len(joined) == 2, one)
    assert set(one.get_members(b"group").get()) == {b"one", b"other"}
    print("ok group", flush=True)

    lock = one.get_lock(b"lock")
    assert lock.acquire()
    assert not other.get_lock(b"lock").acquire(blocking=False)
    print("ok lock", flush=True)

    led: list[bytes] = []
    for member in members:
        member.watch_elected_as_leader(b"group", lambda event: led.append(event.member_id))
        member.run_elect_coordinator()
    wait_until(lambda: led, one, other)
    print("ok leader", flush=True)

    print("restart", flush=True)
    if sys.stdin.readline().strip() == "done":
        wait_until(lambda: _is_served(one))
        assert set(one.get_members(b"group").get()) == {b"one", b"other", b"leader"}  # tooz keeps it there
        assert not other.get_lock(b"lock").acquire(blocking=False)
        print("ok restart", flush=True)
    lock.release()
    for member in members:
        member.leave_group(b"group").get()
        member.stop()
    print("ok end", flush=True)


def _is_served(member: Any) -> bool:
    try:
        member.get_groups().get(timeout=5)
    except coordination.ToozError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1])
