"""What a container makes of its environment: rows 1-4, 7-10, 36-38, 41 and 58 of the checklist."""

import hashlib
from base64 import b64encode
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from support.docker_containers import Box, Lab

pytestmark = [pytest.mark.long, pytest.mark.timeout(600, func_only=True)]

GENERATED = """\
dataDir=/data
dataLogDir=/datalog
tickTime=2000
initLimit=5
syncLimit=2
autopurge.snapRetainCount=3
autopurge.purgeInterval=0
maxClientCnxns=60
standaloneEnabled=true
admin.enableServer=true
server.1=localhost:2888:3888;2181
"""


def test_row_1_a_container_with_nothing_said(plain: Box) -> None:
    assert plain.mode == "standalone"
    assert plain.read("/data/myid") == "1\n"
    assert plain.read("/conf/zoo.cfg") == GENERATED


def test_row_1_kazoo_works_at_the_published_port(plain: Box) -> None:
    client = KazooClient(plain.host_port)
    client.start(timeout=10)
    try:
        client.create("/kazoo", b"was here")
        assert client.get("/kazoo")[0] == b"was here"
    finally:
        client.stop()
        client.close()


def test_row_2_a_variable_becomes_a_line(lab: Lab) -> None:
    box = lab.run(environment={"ZOO_INIT_LIMIT": "10"})

    assert "initLimit=10" in box.read("/conf/zoo.cfg").splitlines()


def test_row_3_a_restart_keeps_the_first_configuration(lab: Lab) -> None:
    """The container's own file wins over other variables later, and the log names what it overrides."""
    volumes = {lab.volume(): {"bind": "/conf"}, lab.volume(): {"bind": "/data"}}
    first = lab.run(environment={"ZOO_MY_ID": "7", "ZOO_TICK_TIME": "1500"}, volumes=volumes)
    before = first.read("/conf/zoo.cfg"), first.read("/data/myid")
    first.stop()
    first.start()
    first.wait_until_serving()
    assert (first.read("/conf/zoo.cfg"), first.read("/data/myid")) == before
    first.stop()

    second = lab.run(environment={"ZOO_TICK_TIME": "3000"}, volumes=volumes)

    assert (second.read("/conf/zoo.cfg"), second.read("/data/myid")) == before
    assert "ZOO_TICK_TIME" in second.log


def test_row_4_a_read_only_zoo_cfg_wins_and_is_left_alone(lab: Lab, tmp_path: Path) -> None:
    zoo_cfg = tmp_path / "zoo.cfg"
    written = "dataDir=/data\ndataLogDir=/datalog\ntickTime=1234\nclientPort=2181\n"
    zoo_cfg.write_text(written)
    box = lab.run(
        environment={"ZOO_TICK_TIME": "3000", "ZOO_4LW_COMMANDS_WHITELIST": "conf"},
        volumes={str(zoo_cfg): {"bind": "/conf/zoo.cfg", "mode": "ro"}},
    )

    assert box.mode == "standalone"
    assert "conf is not executed" in box.word("conf")
    assert "tickTime 1234 ms" in box.log
    assert (zoo_cfg.read_text(), box.run("ls", "/conf").stdout.count("zoo.cfg")) == (written, 1)
    assert not [line for line in box.log_lines if "ERROR" in line or "Read-only file system" in line]


def test_a_read_only_conf_without_a_zoo_cfg_is_served_from_the_environment(lab: Lab, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    box = lab.run(
        environment={"ZOO_4LW_COMMANDS_WHITELIST": "*"},
        volumes={str(tmp_path): {"bind": "/conf", "mode": "ro"}},
    )

    assert "clientPort=2181" in box.word("conf")
    assert not list(tmp_path.iterdir())


def test_a_read_only_root_file_system(lab: Lab) -> None:
    """Data goes to volumes; the configuration, made from the environment, beside the data."""
    volumes = {lab.volume(): {"bind": path} for path in ("/data", "/datalog", "/logs")}
    box = lab.run(read_only=True, volumes=volumes, tmpfs={"/tmp": ""})

    assert box.mode == "standalone"
    assert box.run("triokeeper-healthcheck").code == 0
    assert box.run("zkCli.sh", "ls", "/").lines[-1] == "[zookeeper]"


@pytest.mark.parametrize("words", ["*", "mntr, conf,ruok"])
def test_row_7_the_whitelist_from_the_environment(lab: Lab, words: str) -> None:
    box = lab.run(environment={"ZOO_4LW_COMMANDS_WHITELIST": words})

    assert box.word("ruok") == "imok"
    assert box.word("mntr").startswith("zk_version\t")
    assert "clientPort=2181" in box.word("conf")
    assert ("Connections" in box.word("stat")) == (words == "*")


def test_row_8_ruok_is_not_on_the_default_whitelist(plain: Box) -> None:
    answer = plain.shell("echo ruok | nc localhost 2181").stdout

    assert answer == "ruok is not executed because it is not in the whitelist.\n"


def test_rows_9_and_10_words_by_netcat_as_probes_ask_them(lab: Lab) -> None:
    box = lab.run(environment={"ZOO_4LW_COMMANDS_WHITELIST": "*"})

    for options in ("", "-w 2", "-q 1", "-N"):
        assert box.shell(f"echo ruok | nc {options} localhost 2181").stdout == "imok"
    assert box.shell("echo srvr | nc localhost 2181 | grep Mode").stdout == "Mode: standalone\n"
    state = box.shell("echo mntr | nc localhost 2181 | grep zk_server_state").stdout
    assert state == "zk_server_state\tstandalone\n"
    assert box.shell("exec 3<>/dev/tcp/127.0.0.1/2181 && echo srvr >&3 && grep '^Mode: ' <&3").code == 0


@pytest.mark.parametrize("place", ["JVMFLAGS", "SERVER_JVMFLAGS", "java.env"])
def test_row_36_jute_maxbuffer(lab: Lab, tmp_path: Path, place: str) -> None:
    """A node of five megabytes is taken."""
    flag = "-Djute.maxbuffer=8388608"
    if place == "java.env":
        (tmp_path / "java.env").write_text(f'export JVMFLAGS="{flag}"\n')
        box = lab.run(volumes={str(tmp_path / "java.env"): {"bind": "/conf/java.env", "mode": "ro"}})
    else:
        box = lab.run(environment={place: flag})
    client = KazooClient(box.host_port)
    client.start(timeout=10)
    try:
        client.create("/large", bytes(5_000_000))
        assert client.exists("/large").data_length == 5_000_000
    finally:
        client.stop()
        client.close()


def test_row_37_flags_for_a_jvm_get_one_note(lab: Lab) -> None:
    box = lab.run(environment={"JVMFLAGS": "-Xmx1g -XX:+UseG1GC -javaagent:x.jar"})

    assert len([line for line in box.log_lines if "-Xmx1g" in line]) == 1


def test_row_38_the_superuser_passes_every_acl(lab: Lab) -> None:
    digest = b64encode(hashlib.sha1(b"super:secret").digest()).decode()
    flags = f"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:{digest}"
    box = lab.run(environment={"JVMFLAGS": flags})
    client = KazooClient(box.host_port)
    client.start(timeout=10)
    try:
        client.create("/closed", b"x", acl=[make_digest_acl("owner", "pw", all=True)])
        with pytest.raises(NoAuthError):
            client.get("/closed")
        client.add_auth("digest", "super:secret")
        assert client.get("/closed")[0] == b"x"
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize(
    ("lines", "code", "complaint"),
    [
        ("clientPort=2181\n", 2, "dataDir is not set"),
        ("dataDir=/data\nclientPort=abc\n", 2, 'For input string: "abc"'),
        ("dataDir=/data\nclientPort=2181\ntickTime=0\n", 2, "tickTime is not set"),
        ("dataDir=/proc/nowhere\nclientPort=2181\n", 3, "Unable to create data directory /proc/nowhere/"),
        ("dataDir=/data\nserver.1=a:1:2;3\nserver.2=b:1:2;3\n", 2, "initLimit is not set"),
        (
            "dataDir=/data\ninitLimit=5\nsyncLimit=2\nserver.2=a:1:2;3\nserver.3=b:1:2;3\n",
            1,
            "My id 1 not in the peer list",
        ),
    ],
)
def test_row_41_mistakes_in_zoo_cfg(lab: Lab, tmp_path: Path, lines: str, code: int, complaint: str) -> None:
    (tmp_path / "zoo.cfg").write_text(lines)
    ended = lab.run_to_end(volumes={str(tmp_path / "zoo.cfg"): {"bind": "/conf/zoo.cfg", "mode": "ro"}})

    assert ended.code == code
    assert complaint in ended.stdout
    assert ended.lines[-1].endswith(f"Exiting JVM with code {code}")
    assert complaint in ended.stderr


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"ZOO_TICK_TIME": "soon"}, "ZOO_TICK_TIME"),
        ({"ZOO_MY_ID": "first"}, "ZOO_MY_ID"),
        ({"ZOO_SERVERS": "server.1=zoo1"}, "ZOO_SERVERS"),
        ({"ZOO_SERVERS": "server.1=a:2888:3888;2181 server.1=b:2888:3888;2181"}, "ZOO_SERVERS"),
        ({"ZOO_TLS_CLIENT_ENABLE": "true"}, "ZOO_TLS_CLIENT_ENABLE"),
        ({"ZOO_ENABLE_AUTH": "yes"}, "ZOO_ENABLE_AUTH"),
    ],
)
def test_row_41_mistakes_in_variables(lab: Lab, variables: dict[str, str], named: str) -> None:
    """Exit code 2 and the variable's name; nothing runs open that was meant to be closed."""
    ended = lab.run_to_end(environment=variables)

    assert ended.code == 2
    assert named in ended.stderr


def test_row_41_a_myid_that_is_no_number(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "myid").write_text("first\n")

    ended = lab.run_to_end(volumes={str(tmp_path): {"bind": "/data"}})

    assert ended.code == 2
    assert "serverid first is not a number" in ended.stderr


def test_row_58_ps_shows_the_configuration_file(plain: Box) -> None:
    assert "/conf/zoo.cfg" in plain.shell("ps -ef | grep '[z]oo.cfg'").stdout
