"""Frames whole, byte by byte, and with bytes left over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jute.framing import FrameBuffer, FrameError, frame

FRAME_LENGTH_MAX = 32


def drain(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while (payload := buffer.next_frame()) is not None:
        frames.append(payload)
    return frames


def test_a_whole_frame() -> None:
    """It comes out as it went in, once."""
    buffer = FrameBuffer(FRAME_LENGTH_MAX)
    buffer.feed(b"\x00\x00\x00\x03abc")
    assert buffer.next_frame() == b"abc"
    assert buffer.next_frame() is None


def test_byte_by_byte() -> None:
    """Nothing comes out before the last byte is in."""
    buffer = FrameBuffer(FRAME_LENGTH_MAX)
    for byte in b"\x00\x00\x00\x03ab":
        buffer.feed(bytes([byte]))
        assert buffer.next_frame() is None
    buffer.feed(b"c")
    assert buffer.next_frame() == b"abc"


def test_with_bytes_left_over() -> None:
    """The start of the next frame waits for its rest."""
    buffer = FrameBuffer(FRAME_LENGTH_MAX)
    buffer.feed(b"\x00\x00\x00\x01a\x00\x00\x00\x02b")
    assert drain(buffer) == [b"a"]
    buffer.feed(b"c")
    assert drain(buffer) == [b"bc"]


def test_an_empty_frame_is_a_frame() -> None:
    """b"" is not None."""
    buffer = FrameBuffer(FRAME_LENGTH_MAX)
    buffer.feed(bytes(4))
    assert drain(buffer) == [b""]


@given(st.lists(st.binary(max_size=FRAME_LENGTH_MAX), max_size=6), st.lists(st.integers(0, 250)))
def test_cut_anywhere(payloads: list[bytes], cuts: list[int]) -> None:
    """However the stream is cut, the same frames come out, as soon as they are complete."""
    stream = b"".join(map(frame, payloads))
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    buffer, frames, start = FrameBuffer(FRAME_LENGTH_MAX), [], 0
    for end in ends:
        buffer.feed(stream[start:end])
        frames += drain(buffer)
        start = end
        whole = [n for n in range(len(payloads) + 1) if len(b"".join(map(frame, payloads[:n]))) <= end]
        assert frames == payloads[: max(whole)]


def test_the_longest_frame_passes() -> None:
    """The bound is inclusive, as jute.maxbuffer is."""
    buffer = FrameBuffer(FRAME_LENGTH_MAX)
    buffer.feed(frame(b"x" * FRAME_LENGTH_MAX))
    assert drain(buffer) == [b"x" * FRAME_LENGTH_MAX]


@pytest.mark.parametrize("length", [FRAME_LENGTH_MAX + 1, 0x72756F6B, 2**31 - 1, -1, -(2**31)])
def test_a_bad_length_is_refused_at_once_and_for_good(length: int) -> None:
    """Without waiting for a body, after the good frames before it, and again at each further try."""
    buffer = FrameBuffer(FRAME_LENGTH_MAX)
    buffer.feed(frame(b"good") + length.to_bytes(4, "big", signed=True))
    assert buffer.next_frame() == b"good"
    for _ in range(2):
        with pytest.raises(FrameError, match=str(length)):
            buffer.next_frame()
