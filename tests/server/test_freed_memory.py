"""What large replies took goes back to the system."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries need not be told"
)

LEAVES_HOLES = """
import sys
from server.freed_memory import FreedMemory, resident_bytes
freed = FreedMemory()
size = int(sys.argv[1])
bytes(size)
kept, blocks = [], []
for _ in range((200 << 20) // size):
    blocks.append(bytearray(size))
    kept.append(bytes(2000))
before = resident_bytes()
del blocks
print(freed.turn(), before - resident_bytes() >> 20)
print(freed.turn())
"""


@pytest.mark.parametrize("size", [1 << 20, 100_000])
def test_blocks_between_small_ones_that_stay(size: int) -> None:
    """Those that are mapped, and those in the heap."""
    command = [sys.executable, "-c", LEAVES_HOLES, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, freed_mib, is_much = done.stdout.split()
    assert int(freed_mib) > 150
    assert is_much == "False"
