"""A snapshot as bytes: written by hand from the format, read whole and in pieces, and refused when broken."""

from collections.abc import Iterable
from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from persistence.errors import CorruptSnapshot
from persistence.snapshot_format import (
    SLICE_BYTES_MAX,
    SLICE_NODES_MAX,
    FileDecoder,
    Node,
    Trailers,
    TreeDecoder,
    file_chunks,
    node_chunks,
    stream_chunks,
)
from tests.persistence.fake_tree import STAT, WORLD, FakeTree

GOLDEN_TREE = bytes.fromhex(
    "00000001" "0100000000000007" "00007530"  # one session, 30 s
    "00000001" "0000000000000001" + WORLD.hex() +  # one ACL
    "00000000" "00000000" "ffffffffffffffff" + STAT.hex() +  # the root: no path, empty data, open to all
    "00000002" "2f61" "ffffffff" "0000000000000001" + STAT.hex() +  # /a: no data at all
    "00000001" "2f"
)  # fmt: skip
GOLDEN_HEADER = bytes.fromhex("5a4b534e00000002ffffffffffffffff")
GOLDEN_DIGEST = bytes.fromhex("000000000000000500000002fedcba9876543210")
GOLDEN_LAST_ZXID = bytes.fromhex("0000000000000006")


def sealed(data: bytes) -> bytes:
    return data + adler32(data).to_bytes(8, "big") + b"\0\0\0\1/"


GOLDEN_PLAIN = sealed(GOLDEN_HEADER + GOLDEN_TREE)
GOLDEN_WITH_DIGEST = sealed(GOLDEN_PLAIN + GOLDEN_DIGEST)
GOLDEN = sealed(GOLDEN_WITH_DIGEST + GOLDEN_LAST_ZXID)


def golden_tree() -> FakeTree:
    tree = FakeTree()
    tree.sessions = [(0x0100000000000007, 30000)]
    tree.acls = [(1, WORLD)]
    tree.nodes = [(b"/", b"\0\0\0\0", -1, STAT), (b"/a", b"\xff\xff\xff\xff", 1, STAT)]
    tree.digest = (5, 0xFEDCBA9876543210)
    tree.zxid = 6
    return tree


def pieces(data: bytes, step: int) -> list[bytes]:
    return [data[start : start + step] for start in range(0, len(data), step)]


def load(chunks: Iterable[bytes]) -> tuple[FakeTree, Trailers]:
    tree = FakeTree()
    decoder = FileDecoder(chunks)
    tree.restore_sessions(decoder.sessions())
    tree.restore_acls(decoder.acls())
    tree.restore_nodes(decoder.nodes())
    return tree, decoder.trailers()


@pytest.mark.parametrize(
    ("with_digest", "with_last_zxid", "golden"),
    [
        (True, True, GOLDEN),
        (True, False, GOLDEN_WITH_DIGEST),
        (False, False, GOLDEN_PLAIN),
        (False, True, GOLDEN_PLAIN),  # a last zxid without a digest would make the file unreadable to Apache
    ],
)
def test_a_file_has_the_bytes_of_the_format(with_digest: bool, with_last_zxid: bool, golden: bytes) -> None:
    chunks = file_chunks(golden_tree(), with_digest=with_digest, with_last_zxid=with_last_zxid)
    assert b"".join(chunks) == golden


def test_a_stream_has_neither_header_nor_seals() -> None:
    assert b"".join(stream_chunks(golden_tree())) == GOLDEN_TREE + b"\0\0\0\x0aBenWasHere"


def test_a_signed_digest_is_written_as_its_bits() -> None:
    tree = golden_tree()
    tree.digest = (5, 0xFEDCBA9876543210 - (1 << 64))
    assert b"".join(file_chunks(tree, with_digest=True, with_last_zxid=True)) == GOLDEN


@pytest.mark.parametrize(
    ("data", "trailers"),
    [
        (GOLDEN, Trailers((5, 0xFEDCBA9876543210), 6)),
        (GOLDEN_WITH_DIGEST, Trailers((5, 0xFEDCBA9876543210))),
        (GOLDEN_PLAIN, Trailers()),
        (sealed(GOLDEN_PLAIN + GOLDEN_LAST_ZXID), Trailers(None, 6)),
        (GOLDEN + b"a later version's trailer", Trailers((5, 0xFEDCBA9876543210), 6)),
        (sealed(GOLDEN_PLAIN + bytes(8) + b"\0\0\0\1" + b"\0\0\0\2ff"), Trailers()),  # a digest as text
        (sealed(GOLDEN_PLAIN + bytes(8) + b"\0\0\0\3" + bytes(8)), Trailers()),  # a digest yet to come
    ],
    ids=["both", "digest", "none", "last_zxid", "more", "old_digest", "new_digest"],
)
@pytest.mark.parametrize("step", [1, 7, 64, 4096])
def test_a_file_is_read_however_it_is_cut(data: bytes, trailers: Trailers, step: int) -> None:
    tree, found = load(pieces(data, step))
    assert found == trailers
    assert (tree.sessions, tree.acls) == (golden_tree().sessions, golden_tree().acls)
    assert tree.nodes == golden_tree().nodes


def test_every_cut_but_at_the_end_of_a_seal_is_noticed() -> None:
    sound = {len(GOLDEN_PLAIN), len(GOLDEN_WITH_DIGEST)}
    for cut in set(range(len(GOLDEN))) - sound:
        with pytest.raises(CorruptSnapshot):
            load([GOLDEN[:cut]])


def test_every_changed_bit_is_noticed() -> None:
    """Every byte is covered by a seal, or is one."""
    for at in range(len(GOLDEN)):
        broken = GOLDEN[:at] + bytes([GOLDEN[at] ^ 1]) + GOLDEN[at + 1 :]
        with pytest.raises(CorruptSnapshot):
            load([broken])


node_lists = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=40).map(lambda name: b"/" + name),
        st.one_of(
            st.just(b"\xff\xff\xff\xff"),
            st.binary(max_size=200).map(lambda data: len(data).to_bytes(4, "big") + data),
        ),
        st.integers(-1, 2**63 - 1),
        st.binary(min_size=60, max_size=60),
    ),
    max_size=20,
)
session_lists = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1)), max_size=20)
acl_lists = st.lists(
    st.tuples(st.integers(1, 2**63 - 1), st.sampled_from([WORLD, b"\0\0\0\0", b"\0\0\0\2" + 2 * WORLD[4:]])),
    max_size=5,
)


@given(session_lists, acl_lists, node_lists, st.integers(1, 300))
def test_what_is_written_is_read(
    sessions: list[tuple[int, int]], acls: list[tuple[int, bytes]], nodes: list[Node], step: int
) -> None:
    tree = FakeTree()
    tree.sessions, tree.acls, tree.nodes = sessions, acls, [*tree.nodes, *nodes]
    data = b"".join(file_chunks(tree, with_digest=True, with_last_zxid=True))
    found, _ = load(pieces(data, step))
    assert (found.sessions, found.acls, found.nodes) == (sessions, acls, tree.nodes)


def test_a_stream_is_read_up_to_its_end_and_what_follows_is_left() -> None:
    decoder = TreeDecoder()
    nodes: list[Node] = []
    stream = b"".join(stream_chunks(golden_tree())) + b"the next packet"
    for chunk in pieces(stream, 10):
        if decoder.rest is None:
            nodes += decoder.feed(chunk)
    assert nodes == golden_tree().nodes
    assert decoder.rest is not None
    assert b"\0\0\0\x0aBenWasHere".startswith(decoder.rest[:10])


@pytest.mark.parametrize(
    "broken",
    [
        "ffffffff",  # sessions
        "00000000ffffffff",  # ACLs
        "00000000000000010000000000000001000000010000001f7fffffff",  # an ACL's scheme
        "0000000000000000ffffffff",  # a path
        "00000000000000007fffffff",
        "00000000000000000000000161",
        "0000000000000000000000022f61fffffffe",  # data
        "0000000000000000000000022f617fffffff",
    ],
)
def test_impossible_lengths_are_refused_at_once(broken: str) -> None:
    with pytest.raises(CorruptSnapshot):
        TreeDecoder().feed(bytes.fromhex(broken))


def test_slices_are_bounded_in_number_and_in_bytes() -> None:
    """A slice is encoded in one go, while every client waits."""
    small: list[Node] = [(b"/a", b"\0\0\0\0", -1, STAT)] * (3 * SLICE_NODES_MAX)
    assert len(list(node_chunks(small))) == 4
    large: Node = (b"/a", b"\0\0\x80\0" + bytes(0x8000), -1, STAT)
    assert all(len(chunk) < SLICE_BYTES_MAX + 0x9000 for chunk in node_chunks([large] * 20))
