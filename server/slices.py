"""How much is done in one go before others have their turn.

Work is counted in steps, not in seconds: then what a request costs is the same on every machine, tests can
hold it, and a simulated run can be repeated. A step is about what it takes to set one watch or to tell one
client of an event: half a microsecond compiled, four in pure Python. What is longer than a slice goes on in
the next one (`Pipeline.go_on`, called by the shell between two looks at the sockets).
"""

from typing import Final

_IS_COMPILED: Final = not __file__.endswith(".py")
_ALIKE: Final = 3 if _IS_COMPILED else 1  # of what takes as long compiled as in pure Python

STEPS_PER_SLICE = 12_000 if _IS_COMPILED else 4000
OPERATION_STEPS: Final = 8  # of an operation of a multi, or the end of a session, to prepare or to apply it
FRAME_STEPS: Final = 2  # of a frame that a client sent, to read it and to answer it if it is a read
REFUSAL_STEPS: Final = 4  # more, if it is refused: errors are raised and caught
AUTHENTICATION_STEPS: Final = (
    16 * _ALIKE
)  # more, to prove who somebody is: a digest, and at times a line in the log
ACCEPT_STEPS: Final = 12 * _ALIKE  # of a new connection, or of one that ends
CONNECT_STEPS: Final = 20 * _ALIKE  # of a session that is opened or taken up again
WORD_STEPS: Final = 50 * _ALIKE  # of a four-letter word
LINE_STEPS: Final = _ALIKE  # of a line of a long answer to such a word
FLUSH_STEPS: Final = 8 * _ALIKE  # of a call of the system that sends
WRITE_STEPS: Final = 4  # of a write by itself, which is less
CODEC_STEPS: Final = 2  # of an operation in a list of them, to take it apart or to put it together
BYTES_PER_STEP: Final = (16 << 10) // _ALIKE  # that take as long to be copied
ENTRY_STEPS: Final = 3 * _ALIKE  # of an entry of an ACL, to be read or to be judged
SMALLEST_ENTRY_BYTES: Final = 12  # of such an entry
SEARCHED_PER_STEP: Final = 1 << 10  # of bytes that are looked at one by one: paths, texts
LISTED_PER_STEP: Final = 8  # of names that are put into a list of children
FREED_PER_STEP: Final = 4  # of nodes that are not shown any more
LEVELS_PER_STEP: Final = 2  # of nodes above a node that are looked up
HASHED_PER_STEP: Final = 1000  # of bytes in the names of all nodes above a node, where each is looked up


def long_slice_steps() -> int:
    """Of a transaction that takes many slices, in each of them: others are served in between."""
    return max(1, STEPS_PER_SLICE // 4)


def share_steps() -> int:
    """What each kind of chore has in a turn, however much others ask for: clients that are always there with
    something more would keep it from ever being done."""
    return max(1, STEPS_PER_SLICE // 8)


def operations_per_slice() -> int:
    return STEPS_PER_SLICE // OPERATION_STEPS


def names_per_slice() -> int:
    """How many can be listed at once: half a slice, for there may be others."""
    return STEPS_PER_SLICE * LISTED_PER_STEP // 2


def length_steps(length: int) -> int:
    """What a long request costs beyond a short one: its path may be as long as it is."""
    return length // SEARCHED_PER_STEP


def undecodable_steps(length: int) -> int:
    """What a request may have cost before it turned out to be none: its ACL is looked at entry by entry."""
    return min(length // SMALLEST_ENTRY_BYTES, STEPS_PER_SLICE)


def depth_steps(path: bytes) -> int:
    """What a change costs for the nodes above it, each of which counts what lies below."""
    levels = path.count(b"/")
    return levels // LEVELS_PER_STEP + levels * len(path) // HASHED_PER_STEP
