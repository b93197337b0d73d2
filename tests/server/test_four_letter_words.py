"""Every word against a whole server without sockets; the layouts were recorded from ZooKeeper 3.9.5."""

import re
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path

import attrs
import pytest

from jute.client_records import (
    Acl,
    CreateRequest,
    ExistsRequest,
    GetChildrenRequest,
    GetDataRequest,
    Id,
)
from jute.opcodes import CreateMode, OpCode, Perms
from jute.zookeeper_version import FULL_VERSION
from persistence.data_dirs import DataDirs
from server import slices
from server.client_protocol import OUT_PAUSE_BYTES, ClientConnection
from server.config import FOUR_LETTER_WORDS, ServerConfig
from server.digest_history import DigestHistory
from server.four_letter_words import FourLetterWords
from server.metrics import MetricsReader
from server.standing import Standing
from server.summaries import Sizes
from tests.captured_logs import capture_logs
from tests.server.one_server import Client, OneServer

ALL = FOUR_LETTER_WORDS
OPEN = (Acl(Perms.ALL, Id("world", "anyone")),)
NOT_SERVING = "This ZooKeeper instance is not currently serving requests"
SNAP_DIR, LOG_DIR = Path("/data/version-2"), Path("/datalog/version-2")
STARTED_MS = 400


class PaperHost:
    """A machine whose every answer is known beforehand."""

    def open_files(self) -> int:
        return 60

    def open_files_max(self) -> int:
        return 20_000

    def directory_bytes(self, directory: Path) -> int:
        return {SNAP_DIR: 478, LOG_DIR: 67_108_880}[directory]

    def environment(self) -> Mapping[str, str]:
        return {"zookeeper.version": FULL_VERSION, "host.name": "paper"}


@attrs.define
class Asked:
    """A server that answers words, and the connections it has."""

    server: OneServer
    words: FourLetterWords
    connections: list[ClientConnection]
    turns: int = 0
    longest_steps: int = 0

    def connect(self, *, timeout_ms: int = 10_000) -> Client:
        client = self.server.connect(timeout_ms=timeout_ms)
        client.connection.port = 41_000 + len(self.connections)
        self.connections.append(client.connection)
        return client

    def ask(self, sent: bytes) -> str:
        """Send bytes over a new connection; what comes back before it closes."""
        connection = Client(self.server).connection
        self.connections.append(connection)
        connection.received(sent)
        self.connections.remove(connection)
        assert connection.closes_after_flush
        return b"".join(connection.out).decode()

    def ask_in_slices(self, sent: bytes) -> str:
        """The same for an answer that may take many, of which `turns` and `longest_steps` tell."""
        server, connection = self.server, Client(self.server).connection
        server.begin_batch()
        connection.received(sent)
        self.turns, self.longest_steps = 1, server.pipeline.steps
        said = list(connection.out)
        connection.flushed(0)
        while server.pipeline.has_work_left:
            connection.out.clear()
            server.begin_batch()
            server.pipeline.go_on()
            self.turns += 1
            self.longest_steps = max(self.longest_steps, server.pipeline.steps)
            said += connection.out
            connection.flushed(0)
        assert connection.closes_after_flush
        return b"".join(said).decode()


def make_server(whitelist: frozenset[str] = ALL, standing: Standing | None = None) -> Asked:
    server = OneServer()
    connections: list[ClientConnection] = []
    metrics = MetricsReader(
        current_pipeline=lambda: server.pipeline,
        connections=lambda: connections,
        host=PaperHost(),
        started_ms=STARTED_MS,
    )
    words = FourLetterWords(
        config=ServerConfig(
            data_dir=SNAP_DIR.parent,
            data_log_dir=LOG_DIR.parent,
            client_port=2181,
            tick_ms=2000,
            four_letter_words_whitelist=whitelist,
        ),
        dirs=DataDirs(SNAP_DIR, LOG_DIR),
        metrics=metrics,
        digests=DigestHistory(),
        standing=lambda: standing or Standing(),
        time_zone=UTC,
    )
    server.pipeline.answer_word = words.answer
    return Asked(server, words, connections)


def create(client: Client, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
    flags = CreateMode.EPHEMERAL if ephemeral else CreateMode.PERSISTENT
    _, err, _ = client.ask(OpCode.CREATE, CreateRequest(path, data, OPEN, flags))
    assert err == 0


def hexadecimal(client: Client) -> str:
    return f"0x{client.session_id:x}"


# -- the protocol around the words


@pytest.mark.parametrize("sent", [b"ruok", b"ruok\n", b"ruok\r\n"])
def test_what_follows_a_word_is_ignored(sent: bytes) -> None:
    assert make_server().ask(sent) == "imok"


@pytest.mark.parametrize("word", sorted(ALL))
def test_a_word_outside_the_whitelist_is_refused_by_name(word: str) -> None:
    refusal = f"{word} is not executed because it is not in the whitelist.\n"
    assert make_server(frozenset()).ask(word.encode() + bytes(8)) == refusal


def test_a_refused_word_is_not_waited_for() -> None:
    """`stmk` has an argument, which need not come if the word is refused anyway."""
    refusal = "stmk is not executed because it is not in the whitelist.\n"
    assert make_server(frozenset()).ask(b"stmk") == refusal
    connection = Client(make_server().server).connection
    connection.received(b"stmk" + bytes(7))
    assert not connection.out
    connection.received(bytes(1))
    assert connection.closes_after_flush


def test_a_refused_word_changes_nothing() -> None:
    """Not even the mask that stmk would set or the counts that srst would reset."""
    asked = make_server(frozenset({"gtmk", "srvr"}))
    asked.ask(b"stmk" + bytes(8))
    asked.ask(b"srst")
    assert asked.ask(b"gtmk") == "306"
    assert "Received: 4\n" in asked.ask(b"srvr")


def test_the_interrupt_of_telnet_counts_as_a_refused_word() -> None:
    refusal = "telnet close is not executed because it is not in the whitelist.\n"
    assert make_server().ask(b"\xff\xf4\xff\xfd\x06") == refusal


@pytest.mark.parametrize("word", sorted(ALL - {"ruok", "isro", "gtmk", "stmk", "envi", "hash"}))
def test_a_server_that_does_not_serve_says_so(word: str) -> None:
    assert make_server(standing=Standing(is_serving=False)).ask(word.encode()) == f"{NOT_SERVING}\n"


def test_some_words_are_answered_while_not_serving() -> None:
    asked = make_server(standing=Standing(is_serving=False))
    assert asked.ask(b"ruok") == "imok"
    assert asked.ask(b"isro") == "null"
    assert asked.ask(b"gtmk") == "306"
    assert asked.ask(b"hash") == NOT_SERVING
    assert asked.ask(b"envi").startswith("Environment:\n")


# -- one word after the other


def test_isro_tells_whether_writes_are_taken() -> None:
    assert make_server().ask(b"isro") == "rw"
    assert make_server(standing=Standing(mode="read-only")).ask(b"isro") == "ro"


def test_the_trace_mask_is_a_signed_long() -> None:
    asked = make_server()
    assert asked.ask(b"stmk" + (258).to_bytes(8, "big")) == "258"
    assert asked.ask(b"gtmk") == "258"
    assert asked.ask(b"stmk" + b"\xff" * 8) == "-1"


def test_envi_lists_keys_and_values() -> None:
    assert make_server().ask(b"envi") == f"Environment:\nzookeeper.version={FULL_VERSION}\nhost.name=paper\n"


def test_srvr_of_a_fresh_server() -> None:
    assert make_server().ask(b"srvr") == (
        f"Zookeeper version: {FULL_VERSION}\n"
        "Latency min/avg/max: 0/0.0/0\n"
        "Received: 1\n"
        "Sent: 0\n"
        "Connections: 1\n"
        "Outstanding: 0\n"
        "Zxid: 0x0\n"
        "Mode: standalone\n"
        "Node count: 5\n"
    )


def test_the_version_is_zookeepers_with_a_revision_that_is_not() -> None:
    """Datadog takes the part before the first dash for a version, kazoo the digits and dots in front."""
    assert re.fullmatch(r"3\.9\.5-[0-9a-f]{40}, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC", FULL_VERSION)


def test_srvr_shows_the_latency_of_reads_and_writes_together() -> None:
    asked = make_server()
    asked.server.pipeline.stats.reads.add(0, 30)
    asked.server.pipeline.stats.writes.add(14)
    assert "Latency min/avg/max: 0/0.4516/14\n" in asked.ask(b"srvr")


def test_a_leader_adds_the_sizes_of_its_proposals() -> None:
    proposals = Sizes()
    asked = make_server(standing=Standing(mode="leader", proposals=proposals))
    assert asked.ask(b"srvr").endswith("Node count: 5\nProposal sizes last/min/max: -1/-1/-1\n")
    proposals.add(92)
    asked.ask(b"srst")
    assert proposals.last == -1


def test_a_read_only_server_says_so_after_its_version() -> None:
    lines = make_server(standing=Standing(mode="read-only")).ask(b"srvr").splitlines()
    assert lines[1] == "READ-ONLY mode; serving only read-only clients"
    assert lines[-2] == "Mode: read-only"


def test_stat_is_srvr_with_the_clients_after_the_version() -> None:
    asked = make_server()
    asked.connect()
    srvr = asked.ask(b"srvr").replace("Received: 2", "Received: 3").splitlines(keepends=True)
    assert asked.ask(b"stat") == (
        srvr[0] + "Clients:\n"
        " /127.0.0.1:41000[1](queued=0,recved=1,sent=0)\n"
        " /127.0.0.1:40000[0](queued=0,recved=1,sent=0)\n"
        "\n" + "".join(srvr[1:])
    )


def test_cons_tells_what_each_session_did_last() -> None:
    asked = make_server()
    client = asked.connect()
    create(client, "/a")
    asked.server.pipeline.begin_batch(1500, 1_700_000_000_500)
    client.send(7, OpCode.GET_DATA, b"\x00\x00\x00\x02/a\x00")
    assert asked.ask(b"cons") == (
        f" /127.0.0.1:41000[1](queued=0,recved=3,sent=0,sid={hexadecimal(client)},lop=GETD,est=1700000000000,"
        "to=10000,lcxid=0x7,lzxid=0x2,lresp=1500,llat=0,minlat=0,avglat=0,maxlat=0)\n"
        " /127.0.0.1:40000[0](queued=0,recved=1,sent=0)\n"
        "\n"
    )


def test_an_ipv6_client_is_shown_in_brackets() -> None:
    asked = make_server()
    asked.connect().connection.address = "0:0:0:0:0:0:0:1"
    assert "\n /[0:0:0:0:0:0:0:1]:41000[1](queued=0," in "\n" + asked.ask(b"cons")


@pytest.mark.parametrize(("is_paused", "out_bytes", "shown"), [(False, 9, "[5]"), (True, 0, "[0]")])
def test_a_connection_shows_what_its_socket_waits_for(is_paused: bool, out_bytes: int, shown: str) -> None:
    """1 is reading, 4 writing."""
    asked = make_server()
    connection = asked.connect().connection
    connection.is_paused, connection.out_bytes = is_paused, out_bytes
    assert f":41000{shown}(" in asked.ask(b"stat")


def test_requests_of_a_connection_that_wait_for_the_disk_are_queued() -> None:
    asked = make_server()
    client = asked.connect()
    client.send(1, OpCode.DELETE, b"\x00\x00\x00\x02/a\xff\xff\xff\xff")
    assert ":41000[1](queued=1," in asked.ask(b"stat")
    assert "Outstanding: 1\n" in asked.ask(b"srvr")


def test_crst_resets_what_connections_did() -> None:
    asked = make_server()
    client = asked.connect()
    create(client, "/a")
    assert asked.ask(b"crst") == "Connection stats reset.\n"
    assert asked.ask(b"cons").splitlines()[0] == (
        f" /127.0.0.1:41000[1](queued=0,recved=0,sent=0,sid={hexadecimal(client)},lop=NA,est=1700000000000,"
        "to=10000,lzxid=0xffffffffffffffff,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)"
    )


def test_srst_resets_what_the_server_did() -> None:
    """The word itself is counted before, its answer after."""
    asked = make_server()
    asked.server.pipeline.stats.reads.add(5)
    asked.server.pipeline.stats.auth_failures += 1
    assert asked.ask(b"srst") == "Server stats reset.\n"
    assert "Latency min/avg/max: 0/0.0/0\nReceived: 1\nSent: 0\n" in asked.ask(b"srvr")
    assert "zk_auth_failed_count\t1\n" in asked.ask(b"mntr")


def test_conf_of_a_standalone_server() -> None:
    assert make_server().ask(b"conf") == (
        "clientPort=2181\n"
        "secureClientPort=-1\n"
        "dataDir=/data/version-2\n"
        "dataDirSize=478\n"
        "dataLogDir=/datalog/version-2\n"
        "dataLogSize=67108880\n"
        "tickTime=2000\n"
        "maxClientCnxns=60\n"
        "minSessionTimeout=4000\n"
        "maxSessionTimeout=40000\n"
        "clientPortListenBacklog=-1\n"
        "serverId=0\n"
    )


def test_conf_of_a_member_goes_on_with_its_ensemble() -> None:
    text = make_server(standing=Standing(ensemble_conf="initLimit=5\nversion=100000000")).ask(b"conf")
    assert text.endswith("\nserverId=0\ninitLimit=5\nversion=100000000")


def test_dirs_are_shown_with_their_sizes() -> None:
    assert make_server().ask(b"dirs") == "datadir_size: 478\nlogdir_size: 67108880\n"


def test_hash_shows_zxids_in_hexadecimal_and_digests_as_signed_decimals() -> None:
    asked = make_server()
    assert asked.ask(b"hash") == ""
    asked.words.digests.note(0x80, 15_237_847_504)
    asked.words.digests.note(0x100, (1 << 64) - 5)
    assert asked.ask(b"hash") == "80: 15237847504\n100: -5\n"


def test_dump_shows_sessions_ephemerals_and_connections_by_the_time_they_end() -> None:
    """At 1 s: sessions of 10 and 30 s end in the ticks after 11 and 31 s, and so do their connections."""
    asked = make_server()
    first, second = asked.connect(), asked.connect(timeout_ms=30_000)
    create(first, "/e", ephemeral=True)
    assert asked.ask(b"dump") == (
        "SessionTracker dump:\n"
        "Session Sets (2)/(2):\n"
        "1 expire at Tue Nov 14 22:13:31 UTC 2023:\n"
        f"\t{hexadecimal(first)}\n"
        "1 expire at Tue Nov 14 22:13:51 UTC 2023:\n"
        f"\t{hexadecimal(second)}\n"
        "ephemeral nodes dump:\n"
        "Sessions with Ephemerals (1):\n"
        f"{hexadecimal(first)}:\n"
        "\t/e\n"
        "Connections dump:\n"
        "Connections Sets (2)/(3):\n"
        "2 expire at Tue Nov 14 22:13:39 UTC 2023:\n"
        f"\tip: /127.0.0.1:41000 sessionId: {hexadecimal(first)}\n"
        "\tip: /127.0.0.1:40000 sessionId: 0x0\n"
        "1 expire at Tue Nov 14 22:13:59 UTC 2023:\n"
        f"\tip: /127.0.0.1:41001 sessionId: {hexadecimal(second)}\n"
    )


@pytest.mark.parametrize("mode", ["follower", "observer"])
def test_dump_of_a_learner_lists_sessions_with_their_timeouts(mode: str) -> None:
    asked = make_server(standing=Standing(mode=mode))
    client = asked.connect()
    assert asked.ask(b"dump").startswith(
        f"SessionTracker dump:\nGlobal Sessions(1):\n{hexadecimal(client)}\t10000ms\nephemeral nodes dump:\n"
    )


@pytest.mark.parametrize("mode", ["leader", "follower", "read-only"])
def test_dump_tells_local_sessions_from_those_that_all_know(mode: str) -> None:
    """Where there may be any. Only a leader knows when a session ends that all know."""
    asked = make_server(standing=Standing(mode=mode))
    pipeline = asked.server.pipeline
    pipeline.state.local_sessions = True
    pipeline.local.open(0x77, 4000, pipeline.now_ms)
    client = asked.connect()
    lines = asked.ask(b"dump").splitlines()
    assert lines[1] == "Local Session Sets (1)/(1):"
    assert lines[3] == "\t0x77"
    if mode == "leader":
        assert lines[4] == "Global Session Sets (1)/(1):"
    else:
        assert lines[4:6] == ["Global Sessions(1):", f"{hexadecimal(client)}\t10000ms"]


def test_watches_on_data_are_shown_by_path_and_by_session() -> None:
    """Watches on children are counted nowhere, as in the original."""
    asked = make_server()
    first, second = asked.connect(), asked.connect()
    create(first, "/svc")
    first.ask(OpCode.GET_DATA, GetDataRequest("/svc", True))
    first.ask(OpCode.EXISTS, ExistsRequest("/svc/none", True))
    first.ask(OpCode.GET_CHILDREN, GetChildrenRequest("/svc", True))
    second.ask(OpCode.GET_DATA, GetDataRequest("/svc", True))
    one, two = hexadecimal(first), hexadecimal(second)
    assert asked.ask(b"wchs") == "2 connections watching 2 paths\nTotal watches:3\n"
    assert asked.ask(b"wchc") in (  # the paths of a session come in any order
        f"{one}\n\t/svc\n\t/svc/none\n{two}\n\t/svc\n\n",
        f"{one}\n\t/svc/none\n\t/svc\n{two}\n\t/svc\n\n",
    )
    assert asked.ask(b"wchp") == f"/svc\n\t{one}\n\t{two}\n/svc/none\n\t{one}\n\n"


def test_without_watches_there_is_an_empty_line() -> None:
    asked = make_server()
    assert asked.ask(b"wchs") == "0 connections watching 0 paths\nTotal watches:0\n"
    assert asked.ask(b"wchc") == "\n"
    assert asked.ask(b"wchp") == "\n"


# -- mntr; its numbers are in test_metrics.py


def test_mntr_begins_with_version_and_state() -> None:
    lines = make_server().ask(b"mntr").splitlines()
    assert lines[:3] == [f"zk_version\t{FULL_VERSION}", "zk_server_state\tstandalone", "zk_avg_latency\t0.0"]


def test_a_member_of_an_ensemble_adds_its_state_and_gauges() -> None:
    standing = Standing(
        mode="leader", monitor_values={"peer_state": "leading - broadcast"}, gauges={"synced_followers": 2}
    )
    text = make_server(standing=standing).ask(b"mntr")
    assert "\nzk_server_state\tleader\nzk_peer_state\tleading - broadcast\nzk_avg_latency\t" in text
    assert "\nzk_synced_followers\t2\n" in text


def test_telegraf_takes_every_line_of_mntr() -> None:
    """One line that does not match, and Telegraf discards them all; so no name of a node may spoil one."""
    asked = make_server()
    for path in (b"/plain", b"/-dash/x", "/größe $1".encode()):
        asked.server.pipeline.tree.quotas.refusals[path.split(b"/")[1]] += 1
    lines = asked.ask(b"mntr").splitlines()
    telegraf = re.compile(r"^zk_(\w[\w.\-]*)\s+([\w.\-]+)", re.ASCII)
    assert [line for line in lines if not telegraf.match(line)] == []
    assert "zk_plain_quota_exceeded_error_per_namespace\t1" in lines
    assert "zk__dash_quota_exceeded_error_per_namespace\t1" in lines


def test_a_probe_leaves_no_trace_in_the_usual_log() -> None:
    """Health checks come every few seconds, for ever."""
    asked = make_server(frozenset({"ruok", "srvr"}))
    asked.ask(b"srvr")
    with capture_logs() as lines:
        asked.ask(b"ruok")

    assert [line["log_level"] for line in lines] == ["debug"]


# -- very much to tell


LONG_WORDS = (b"cons", b"crst", b"dump", b"stat", b"wchc", b"wchp", b"wchs")


@pytest.fixture(scope="module")
def crowded() -> Asked:
    """Connections, sessions, ephemerals and watches, each more than fit into a slice."""
    asked = make_server()
    clients = [asked.connect() for _ in range(600)]
    for client in clients:
        for n in range(10):
            client.ask(OpCode.EXISTS, ExistsRequest(f"/w{n}-{client.session_id % 100}", True))
    for n in range(6000):
        create(clients[0], f"/e{n}" + "x" * 300, ephemeral=True)
    return asked


@pytest.mark.parametrize("word", LONG_WORDS)
def test_a_long_answer_is_made_in_slices_and_is_the_same(
    crowded: Asked, monkeypatch: pytest.MonkeyPatch, word: bytes
) -> None:
    at_once = crowded.ask_in_slices(word)
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 300)
    in_slices = crowded.ask_in_slices(word)
    if word == b"stat":
        at_once = re.sub("(Received|Sent): .*", "", at_once)
        in_slices = re.sub("(Received|Sent): .*", "", in_slices)
    assert in_slices == at_once
    assert crowded.turns > 1
    assert crowded.longest_steps < 2 * 300


def test_a_long_answer_waits_for_its_client(crowded: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has not taken is not more than a little above the limit; then the rest follows."""
    whole = crowded.ask_in_slices(b"dump")
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 300)
    connection = Client(crowded.server).connection
    crowded.server.begin_batch()
    connection.received(b"dump")
    taken = b""
    for _ in range(1000):
        crowded.server.work_off()
        assert sum(map(len, connection.out)) < OUT_PAUSE_BYTES + 200_000
        taken += b"".join(connection.out)
        connection.out.clear()
        if connection.closes_after_flush:
            break
        connection.flushed(0)
    assert len(taken.splitlines()) == len(whole.splitlines())
    assert len(taken) > OUT_PAUSE_BYTES


def test_who_leaves_before_a_long_answer_is_whole_is_forgotten(
    crowded: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 300)
    connection = Client(crowded.server).connection
    crowded.server.begin_batch()
    connection.received(b"dump")
    assert crowded.server.pipeline.has_work_left
    connection.lost()
    crowded.server.work_off()
    assert not crowded.server.pipeline.has_work_left
