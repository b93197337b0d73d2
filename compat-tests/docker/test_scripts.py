"""Scripts inside the container, beside Apache's own tools: rows 13, 15-18, 20, 35, 44, 45 and 47."""

import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from support.docker_containers import Box, Ended, Lab, wait_for
from support.kazoo_load import kazoo_client
from support.monitor_rules import check_mntr, check_stat
from support.reference import find_reference
from tools.zkcli.processes import command_line

pytestmark = [pytest.mark.long, pytest.mark.timeout(600, func_only=True)]

FOUND = "Client port found: 2181. Client address: localhost. Client SSL: false."
# What is not the same in two runs: the address, the session, times, and when the first event is told.
MASKS = [
    (re.compile(r"\nWATCHER::\n\nWatchedEvent state:SyncConnected.*\n"), ""),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), "SERVER"),
    (re.compile(r"ip: [\d.]+"), "ip: CLIENT"),  # from inside, and from the host
    (re.compile(r"-[0-9a-f]{40}, built on .*"), "-COMMIT"),
    (re.compile(r"0x[0-9a-f]{10,}"), "SESSION"),
    (re.compile(r"(\w{3} ){2}[ \d]\d \d\d:\d\d:\d\d \w+ \d{4}"), "DATE"),
    (re.compile(r"(?m)^([cmp]Zxid|cversion|dataVersion) = .*$"), r"\1 = NUMBER"),
]
# In this order: each finds what the ones before it left behind.
COMMANDS = (
    "ls /",
    "create /hello world",
    "create /hello again",
    "get /hello",
    "get -s /hello",
    "stat /hello",
    "set /hello there",
    "set -v 7 /hello there",
    "create /hello/child",
    "create -s /hello/seq-",
    "ls -R /hello",
    "ls -s /hello",
    "delete /hello",
    "getAcl /hello",
    "setAcl /hello world:anyone:cdrwa",
    "setAcl /hello bogus",
    "getAllChildrenNumber /",
    "getEphemerals",
    "setquota -n 10 /hello",
    "listquota /hello",
    "delquota /hello",
    "listquota /hello",
    "sync /",
    "config",
    "whoami",
    "version",
    "get /nope",
    "get nope",
    "ls",
    "bogus",
    "deleteall /hello",
    "ls /hello",
)


@pytest.fixture(scope="module")
def served(shared_lab: Lab) -> Box:
    return shared_lab.run(environment={"ZOO_4LW_COMMANDS_WHITELIST": "*"})


def test_row_13_status(served: Box) -> None:
    ended = served.run("zkServer.sh", "status")

    assert (ended.code, ended.lines) == (0, [FOUND, "Mode: standalone"])
    assert ended.stderr.splitlines() == ["ZooKeeper JMX enabled by default", "Using config: /conf/zoo.cfg"]


def test_row_13_status_of_a_server_that_is_not_there(lab: Lab) -> None:
    box = lab.start("sleep", "60")
    wait_for(lambda: box.run("cat", "/proc/1/cmdline").stdout.startswith("sleep"), box)

    ended = box.run("zkServer.sh", "status")

    assert ended.code == 1
    assert "Error contacting service. It is probably not running." in ended.stdout


def test_rows_15_to_17_one_command_at_a_time(lab: Lab) -> None:
    box = lab.run()

    listed = box.run("zkCli.sh", "ls", "/")
    created = box.run("zkCli.sh", "-server", "localhost:2181", "create", "/hello", "world")
    got = box.run("zkCli.sh", "-server", "localhost:2181", "get", "/hello")
    missed = box.run("zkCli.sh", "get", "/nope")

    assert (listed.code, listed.lines[-1]) == (0, "[zookeeper]")
    assert (created.code, created.stderr) == (0, "Created /hello\n")
    assert (got.code, got.lines[-1]) == (0, "world")
    assert (missed.code, missed.stderr) == (1, "Node does not exist: /nope\n")


def test_row_18_commands_from_a_pipe(lab: Lab) -> None:
    box = lab.run()

    ended = box.shell('echo "ls /" | zkCli.sh -server localhost:2181')

    assert ended.code == 0
    assert re.search(r"\[zk: localhost:2181\(CONNECTED\) 0\] \[zookeeper\]\n", ended.stdout)


def test_row_20_a_shell_in_a_container_of_its_own(lab: Lab) -> None:
    """The image runs the command alone: the other container's server answers, none is started here."""
    network = lab.network()
    lab.run(network=network, aliases=["zookeeper"])

    ended = lab.run_to_end("zkCli.sh", "-server", "zookeeper", "ls", "/", network=network)

    assert (ended.code, ended.lines[-1]) == (0, "[zookeeper]")
    assert "serving on" not in ended.stdout


def test_row_20_an_interactive_shell(lab: Lab) -> None:
    """As a person has it with `docker run -it --rm --link ... zkCli.sh -server zookeeper`."""
    links = {lab.run().name: "zookeeper"}
    shell = lab.create("zkCli.sh", "-server", "zookeeper", links=links, ports={}, tty=True, stdin_open=True)
    with shell.terminal() as terminal:
        shell.start()
        terminal.wait_for("[zk: zookeeper(CONNECTED) 0]")
        terminal.type("create /typed here")
        terminal.wait_for("Created /typed")
        terminal.wait_for("[zk: zookeeper(CONNECTED) 1]")
        terminal.type("ls /")
        terminal.wait_for("[typed, zookeeper]")
        assert "start" not in shell.run("ps", "-eo", "args").stdout.split()  # no server was started here
        terminal.type("quit")

        assert shell.wait_until_ended() == 0


TELEGRAF = Path(__file__).with_name("telegraf")


def test_row_35_telegraf_parses_what_monitors_ask_for(served: Box, tmp_path: Path) -> None:
    """Telegraf's own input, by its released module; without Go the next test holds its rules alone."""
    if shutil.which("go") is None:
        pytest.skip("Telegraf's input is built with Go, which is not on the PATH: install golang")
    program = tmp_path / "ask"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."], cwd=TELEGRAF, capture_output=True, text=True, timeout=900
    )
    assert built.returncode == 0, built.stderr

    asked = subprocess.run([program, served.host_port], capture_output=True, text=True, timeout=30)

    assert (asked.returncode, asked.stderr) == (0, "")
    state, *fields = asked.stdout.splitlines()
    assert state == "state standalone"
    kinds = {name: kind for name, kind, _ in (line.split(" ", 2) for line in fields)}
    assert len(kinds) > 50
    assert kinds["version"] == "string"
    counted = ("znode_count", "watch_count", "num_alive_connections", "outstanding_requests", "max_latency")
    assert {name: kinds[name] for name in counted} == dict.fromkeys(counted, "int64")


def test_row_35_words_that_monitors_parse(served: Box) -> None:
    """By the rules of Telegraf and of Datadog, which also want the words to work with a line's end."""
    assert served.word("ruok\n") == "imok"
    with kazoo_client(served.host_port):
        check_mntr(served.word("mntr\n"), "standalone")
        check_stat(served.word("stat\n"), "standalone")


@pytest.fixture(scope="module")
def two_shells(shared_lab: Lab) -> tuple[dict[str, Ended], dict[str, Ended]]:
    """The whole list by the image's zkCli.sh, then by Apache's, each on a fresh server of the image."""
    ours = shared_lab.run()
    by_ours = {f"{at} {line}": ours.run("zkCli.sh", *line.split()) for at, line in enumerate(COMMANDS)}
    other = shared_lab.run()
    by_apaches = {
        f"{at} {line}": run_apaches_shell(other.host_port, line.split()) for at, line in enumerate(COMMANDS)
    }
    return by_ours, by_apaches


def run_apaches_shell(server: str, command: Sequence[str]) -> Ended:
    done = subprocess.run(
        command_line("reference", ["-server", server, *command]),
        env={"TZ": "UTC", "PATH": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("command", [f"{at} {line}" for at, line in enumerate(COMMANDS)])
def test_the_shell_says_what_apaches_says(
    two_shells: tuple[dict[str, Ended], dict[str, Ended]], command: str
) -> None:
    ours, apaches = (masked(ended[command]) for ended in two_shells)

    assert ours == apaches


def masked(ended: Ended) -> tuple[int, str, str]:
    stdout, stderr = ended.stdout, ended.stderr
    for pattern, instead in MASKS:
        stdout, stderr = pattern.sub(instead, stdout), pattern.sub(instead, stderr)
    return ended.code, stdout, stderr


def test_row_44_quotas(lab: Lab) -> None:
    box = lab.run()
    box.run("zkCli.sh", "create", "/a")
    assert box.run("zkCli.sh", "setquota", "-n", "10", "/a").code == 0

    ended = box.run("zkCli.sh", "listquota", "/a")

    assert ended.stderr == "absolute path is /zookeeper/quota/a/zookeeper_limits\n"
    assert "Output quota for /a count=10,bytes=-1" in ended.stdout
    assert "Output stat for /a count=1,bytes=0" in ended.stdout


@pytest.fixture
def filled(lab: Lab) -> Box:
    """A server with more snapshots and logs than are to be kept."""
    box = lab.run(environment={"ZOO_CFG_EXTRA": "snapCount=20"})
    client = KazooClient(box.host_port)
    client.start(timeout=10)
    for _ in range(200):
        client.create("/n-", b"x", sequence=True)
    client.stop()
    client.close()
    wait_for(lambda: len(snapshots(box)) > 3, box)
    return box


def snapshots(box: Box) -> list[str]:
    names = box.run("ls", "/data/version-2").stdout.split()
    return sorted((name for name in names if name.startswith("snapshot.")), key=zxid_of)


def zxid_of(name: str) -> int:
    return int(name.partition(".")[2], 16)


def test_row_45_cleanup(filled: Box) -> None:
    before = snapshots(filled)

    ended = filled.run("zkCleanup.sh", "-n", "3")

    assert ended.code == 0
    assert snapshots(filled) == before[-3:]
    removed = [line for line in ended.stdout.splitlines() if line.startswith("Removing file: ")]
    assert len([line for line in removed if "/snapshot." in line]) == len(before) - 3
    assert all(re.fullmatch(r"Removing file: .+\t/data(log)?/version-2/\S+", line) for line in removed)


def test_row_47_toolkits_say_what_apaches_say_on_our_files(filled: Box, tmp_path: Path) -> None:
    filled.stop()
    for place in ("/data/version-2", "/datalog/version-2"):
        copy_out(filled, place, tmp_path / place.lstrip("/"))
    filled.start()
    filled.wait_until_serving()
    log = by_age(tmp_path, "datalog/version-2/log.*")[0]
    snapshot = by_age(tmp_path, "data/version-2/snapshot.*")[-1]

    for script, main_class, file in (
        ("zkTxnLogToolkit.sh", "org.apache.zookeeper.server.persistence.TxnLogToolkit", log),
        ("zkSnapShotToolkit.sh", "org.apache.zookeeper.server.SnapshotFormatter", snapshot),
    ):
        ours = filled.run(script, file)
        apaches = run_apaches_tool(main_class, str(tmp_path / file.lstrip("/")))

        assert ours.code == apaches.code == 0
        assert len(ours.lines) > 10
        assert dated(ours.stdout) == dated(apaches.stdout)


def copy_out(box: Box, path: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    chunks, _ = box.container.get_archive(path)
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        archive.extractall(target.parent, filter="data")


def by_age(copy: Path, pattern: str) -> list[str]:
    """Files, oldest first, by their paths in the container."""
    files = sorted(copy.glob(pattern), key=lambda path: zxid_of(path.name))
    return [f"/{file.relative_to(copy)}" for file in files]


def run_apaches_tool(main_class: str, *arguments: str) -> Ended:
    reference = find_reference()
    command = [reference.java, "-Duser.timezone=UTC", "-Duser.language=en", "-cp", reference.class_path]
    done = subprocess.run([*command, main_class, *arguments], capture_output=True, text=True, timeout=60)
    return Ended(done.returncode, done.stdout, done.stderr)


def dated(text: str) -> list[str]:
    """Its lines, without log lines and with the blanks that Java's releases put into times alike."""
    lines = text.replace("\N{NARROW NO-BREAK SPACE}", " ").splitlines()
    return [line for line in lines if not re.match(r"\d{4}-\d\d-\d\d .*\[myid:", line)]
