"""Every metric under its name, in the flat form that mntr and the AdminServer show."""

from collections.abc import Mapping
from pathlib import Path

from jute.client_records import Acl, CreateRequest, Id
from jute.opcodes import CreateMode, EventType, OpCode, Perms
from server.metrics import MetricsReader, Number, spelled
from server.standing import Standing
from tests.server.one_server import Client, OneServer

OPEN = (Acl(Perms.ALL, Id("world", "anyone")),)

# What a fresh standalone ZooKeeper 3.9.5 prints: 24 gauges, 51 counters, 42 and 23 summaries.
GAUGES = """
    avg_latency max_latency min_latency packets_received packets_sent num_alive_connections
    outstanding_requests uptime znode_count watch_count ephemerals_count approximate_data_size
    global_sessions local_sessions open_file_descriptor_count max_file_descriptor_count
    connection_drop_probability last_client_response_size max_client_response_size
    min_client_response_size outstanding_tls_handshake auth_failed_count non_mtls_remote_conn_count
    non_mtls_local_conn_count
""".split()
OWN = """
    loop_held_us_avg loop_held_us_max loop_held_us_cnt loop_held_us_sum loop_held_us_p50 loop_held_us_p95
    loop_held_us_p99 loop_held_us_p999 loop_held_long
""".split()
VALUES_OF_A_FRESH_SERVER = 24 + 51 + 5 * 42 + 9 * 23


class SmallHost:
    def open_files(self) -> int:
        return 60

    def open_files_max(self) -> int:
        return 20_000

    def directory_bytes(self, directory: Path) -> int:
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        raise NotImplementedError


def values_of(server: OneServer, *clients: Client) -> dict[str, Number]:
    connections = [client.connection for client in clients]
    reader = MetricsReader(
        current_pipeline=lambda: server.pipeline,
        connections=lambda: connections,
        host=SmallHost(),
        started_ms=400,
    )
    flat = list(spelled(reader.read(Standing())))
    values = dict(flat)
    assert len(values) == len(flat), "no name appears twice"
    return values


def create(client: Client, path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT) -> None:
    _, err, _ = client.ask(OpCode.CREATE, CreateRequest(path, data, OPEN, mode))
    assert err == 0


def test_a_fresh_server_has_every_name_of_the_original() -> None:
    values = values_of(OneServer())
    assert list(values)[:24] == GAUGES
    assert list(values)[VALUES_OF_A_FRESH_SERVER:] == [f"triokeeper_{name}" for name in OWN]
    assert {"commit_count", "max_fsynctime", "p999_readlatency", "sum_socket_closing_time"} <= values.keys()


def test_gauges_show_the_server_as_it_is() -> None:
    server = OneServer()
    client = server.connect()
    create(client, "/svc", b"12345")
    create(client, "/svc/e", mode=CreateMode.EPHEMERAL)
    values = values_of(server, client)
    shown = {name: values[name] for name in ("uptime", "znode_count", "ephemerals_count", "global_sessions")}
    assert shown == {"uptime": 600, "znode_count": 7, "ephemerals_count": 1, "global_sessions": 1}
    assert (values["num_alive_connections"], values["packets_received"]) == (1, 3)
    assert (values["open_file_descriptor_count"], values["max_file_descriptor_count"]) == (60, 20_000)


def test_values_that_are_doubles_in_the_original_are_floats_here() -> None:
    """Prometheus does not care, but Telegraf keeps integers and texts apart."""
    values = values_of(OneServer())
    floats = {name for name, value in values.items() if isinstance(value, float)}
    assert floats == {"connection_drop_probability"} | {
        name for name in values if name.startswith("avg_") or name.endswith("_avg")
    }


def test_counted_things_appear_under_their_names() -> None:
    server = OneServer()
    stats = server.pipeline.stats
    stats.connect_requests = 1
    stats.connections_lost = 2
    stats.connections_idle = 3
    stats.sessions_renewed = 4
    stats.sessions_expired = 5
    stats.digest_mismatches = 6
    stats.bytes_sent, stats.watch_bytes, stats.word_bytes = 100, 32, 8
    values = values_of(server)
    assert values["connection_request_count"] == 1
    assert values["connection_drop_count"] == 2
    assert values["sessionless_connections_expired"] == 3
    assert values["connection_revalidate_count"] == 4
    assert values["stale_sessions_expired"] == 5
    assert values["digest_mismatches_count"] == 6
    assert (values["response_bytes"], values["watch_bytes"]) == (60, 32)


def test_writes_in_flight_are_queued_and_not_yet_removed() -> None:
    server = OneServer()
    client = server.connect()
    client.send(1, OpCode.DELETE, b"\x00\x00\x00\x02/a\xff\xff\xff\xff")
    values = values_of(server, client)
    assert values["outstanding_requests"] == 1
    assert (values["outstanding_changes_queued"], values["outstanding_changes_removed"]) == (2, 1)


def test_latencies_have_percentiles() -> None:
    server = OneServer()
    for elapsed_ms in range(1, 101):
        server.pipeline.stats.writes.add(elapsed_ms)
    values = values_of(server)
    prefixes = ("avg", "min", "max", "cnt", "sum", "p50", "p95", "p99", "p999")
    shown = [values[f"{prefix}_updatelatency"] for prefix in prefixes]
    assert shown == [50.5, 1, 100, 100, 5050, 51, 96, 100, 100]
    assert values["max_latency"] == 100


def test_watchers_are_counted_by_what_happened_to_the_node() -> None:
    server = OneServer()
    server.pipeline.stats.watchers_told[EventType.NODE_DATA_CHANGED].add(3)
    values = values_of(server)
    assert (values["sum_node_changed_watch_count"], values["cnt_node_created_watch_count"]) == (3, 0)


def test_sizes_of_replies_do_not_include_the_length_in_front() -> None:
    server = OneServer()
    assert values_of(server)["last_client_response_size"] == -1
    for frame_bytes in (102, 20, 60):
        server.pipeline.stats.responses.add(frame_bytes)
    values = values_of(server)
    names = ("last_client_response_size", "min_client_response_size", "max_client_response_size")
    assert [values[name] for name in names] == [56, 16, 98]


def test_quotas_are_added_up_for_each_namespace() -> None:
    """A hard limit goes before a soft one; usage is the server's own count."""
    server = OneServer()
    client = server.connect()
    for path in ("/svc", "/svc/a", "/zookeeper/quota/svc", "/zookeeper/quota/svc/a"):
        create(client, path, b"123")
    for path, limits in (
        ("svc", b"count=3,bytes=-1=;byteHardLimit=-1;countHardLimit=30"),
        ("svc/a", b"count=2,bytes=7"),
    ):
        create(client, f"/zookeeper/quota/{path}/zookeeper_limits", limits)
        create(client, f"/zookeeper/quota/{path}/zookeeper_stats", b"count=0,bytes=0")
    values = values_of(server, client)
    shown = [
        values[f"svc_quota_{what}_per_namespace"]
        for what in ("count_limit", "bytes_limit", "count_usage", "bytes_usage")
    ]
    assert shown == [32, 6, 3, 9]


def test_long_holds_of_the_loop_are_counted_by_what_held_it() -> None:
    """A task's name may hold what no name of a value does."""
    server = OneServer()
    meter = server.pipeline.meter
    meter.holds.add(120_000)
    meter.holds.add(60_000)
    meter.long_holds |= {("request", 14): 1, ("<the front>", 0): 2}
    values = {name: value for name, value in values_of(server).items() if "loop_held_long" in name}
    assert values == {
        "triokeeper_loop_held_long": 3,
        "triokeeper_loop_held_long__the_front_": 2,
        "triokeeper_loop_held_long_request_14": 1,
    }
    assert values_of(server)["triokeeper_loop_held_us_max"] == 120_000
