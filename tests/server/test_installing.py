"""Prepared changes that take their place in the tree, and nodes that the preparer keeps at hand.

That installing leads to the same tree as computing is a property of test_busy_server.py; here are the cases
in which prepared changes must not be installed or kept.
"""

from struct import unpack_from

from jute.client_records import Acl, CreateRequest, Id, SetDataRequest
from jute.opcodes import OpCode
from jute.record import encode
from server.apply_txn import apply_txn
from server.data_tree import CREATES_MAX
from server.prepare_txn import Preparer
from tests.server.one_server import Client, OneServer
from tests.server.test_fuzz_findings import MULTI_END
from tests.server.test_slices import of_type
from tests.server.tree_checks import assert_sound

OPEN = (Acl(31, Id("world", "anyone")),)
SEQUENTIAL = 2
STATS = b"/zookeeper/quota/a/zookeeper_stats"


def create(client: Client, path: str, data: bytes = b"", flags: int = 0) -> None:
    client.send(1, OpCode.CREATE, encode(CreateRequest(path, data, OPEN, flags)))


def set_data(client: Client, path: str, data: bytes) -> None:
    client.send(1, OpCode.SET_DATA, encode(SetDataRequest(path, data, -1)))


def prepare_again(server: OneServer) -> None:
    """From what the tree is now: somebody has changed it by hand."""
    pipeline, tree = server.pipeline, server.tree
    tree.digest = tree.compute_digest()
    pipeline.preparer = Preparer(tree, pipeline.sessions, pipeline.rules)


def assert_settled(server: OneServer) -> None:
    server.settle()
    assert_sound(server.tree)
    assert server.tree.digest == server.tree.compute_digest()


def test_a_count_that_sticks_at_its_maximum() -> None:
    """As long as they are in flight, counts go on beyond it; what is stored does not."""
    server = OneServer()
    client = server.connect()
    create(client, "/p")
    server.settle()
    server.tree.note_create(b"/p", CREATES_MAX - 1, server.tree.last_zxid)
    prepare_again(server)
    for _ in range(4):
        create(client, "/p/n", flags=SEQUENTIAL)
    assert_settled(server)
    assert server.tree.creates[b"/p"] == CREATES_MAX
    set_data(client, "/p", b"later")
    assert_settled(server)


def test_quota_statistics_that_change_between_preparing_and_applying() -> None:
    """A node below the statistics is prepared with what they were, and must not bring that back."""
    server = OneServer()
    client = server.connect()
    for path in ("/a", "/zookeeper/quota/a"):
        create(client, path)
    create(client, "/zookeeper/quota/a/zookeeper_limits", b"count=100,bytes=-1")
    create(client, STATS.decode(), b"count=0,bytes=0")
    server.settle()
    create(client, "/a/b", b"12345")
    create(client, f"{STATS.decode()}/below")
    assert_settled(server)
    assert server.tree.bodies[STATS][4:-68] == b"count=2,bytes=5"
    create(client, "/a/c")
    create(client, f"{STATS.decode()}/another")
    assert_settled(server)
    assert server.tree.bodies[STATS][4:-68] == b"count=3,bytes=5"


def test_a_tree_that_keeps_its_own_digest_computes_what_it_is_given() -> None:
    server = OneServer()
    server.connect()
    tree, preparer = server.tree, server.pipeline.preparer
    tree.tracks_digest = True
    session_id = next(iter(server.pipeline.sessions.by_id))
    body = encode(CreateRequest("/a", b"1", OPEN, 0))
    txn = preparer.prepare(session_id, 1, OpCode.CREATE, body, (), 1)
    assert txn.changes
    apply_txn(tree, txn)
    assert tree.digest == tree.compute_digest()


def test_few_and_small_nodes_are_kept_at_hand() -> None:
    server = OneServer()
    client = server.connect()
    create(client, "/large", bytes(100_000))
    server.settle()
    assert b"/large" not in server.pipeline.preparer._known
    assert b"/" in server.pipeline.preparer._known
    for number in range(5000):
        create(client, f"/n{number}")
        server.settle()
    assert 0 < len(server.pipeline.preparer._known) <= 4096
    assert_settled(server)


def test_a_node_that_has_grown_is_no_longer_kept() -> None:
    """What was kept of it before is forgotten, too."""
    server = OneServer()
    client = server.connect()
    create(client, "/n")
    server.settle()
    set_data(client, "/n", bytes(100_000))
    server.settle()
    set_data(client, "/n", b"")
    assert_settled(server)
    assert server.tree.bodies[b"/n"][-36:-32] == b"\0\0\0\2"


def test_what_is_kept_at_hand_shares_long_acls_with_the_tree() -> None:
    """However many nodes have the same one, it is there once."""
    server = OneServer()
    client = server.connect()
    acl = tuple(Acl(31, Id("ip", f"10.0.{n}.1")) for n in range(100)) + OPEN
    for path in ("/a", "/b"):
        client.ask(OpCode.CREATE, encode(CreateRequest(path, b"", acl, 0)))
    known = server.pipeline.preparer._known
    assert known[b"/a"].acl is known[b"/b"].acl is server.tree.acls[b"/a"]


def test_a_result_inside_a_multi_shows_the_children_that_it_has_created() -> None:
    """Though the parent is brought in step only once."""
    server = OneServer()
    client = server.connect()
    create(client, "/p")
    server.settle()
    body = b"".join(
        (
            of_type(OpCode.CREATE, encode(CreateRequest("/p/a", b"", OPEN, 0))),
            of_type(OpCode.SET_DATA, encode(SetDataRequest("/p", b"x", -1))),
            of_type(OpCode.CREATE, encode(CreateRequest("/p/b", b"", OPEN, 0))),
        )
    )
    _, err, reply = client.ask(OpCode.MULTI, body + MULTI_END)
    assert err == 0
    stat = reply[9 + 4 + len("/p/a") + 9 :][:68]
    version, cversion = unpack_from(">ii", stat, 32)
    children = unpack_from(">i", stat, 56)[0]
    assert (version, cversion, children) == (1, 1, 1)
    assert_settled(server)


def test_installed_nodes_count_by_the_characters_of_their_paths() -> None:
    """As computed ones do (test_data_tree.py)."""
    server = OneServer()
    client = server.connect()
    before = server.tree.approximate_data_bytes
    for path in ("/\u00e4\u20ac", "/\u00e4\u20ac/\u00e9"):
        create(client, path, b"abc")
    assert_settled(server)
    assert server.tree.approximate_data_bytes - before == (3 + 3) + (5 + 3)
