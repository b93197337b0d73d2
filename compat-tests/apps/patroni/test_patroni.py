"""Patroni: two PostgreSQL servers, one of which leads, while ZooKeeper is restarted and killed.

Patroni keeps its leader as an ephemeral node. A ZooKeeper that is soon back must not make it change, and when
the leader dies, the other one takes over with all that was written.
"""

import json
import os
import pwd
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import which

import attrs
import pytest
import yaml

from apps.environments import AppUnavailable, python_with
from apps.java_programs import end_of
from support.servers import HOST, free_ports
from support.targets import Service

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
VERSION = "4.1.5"
PSYCOPG = "psycopg[binary]==3.2.13"
DEBIAN_VERSIONS = Path("/usr/lib/postgresql")
DATABASE_OWNER = "postgres"
SESSION_SECONDS, LOOP_SECONDS, RETRY_SECONDS = 20, 1, 9
READY_SECONDS_MAX = 120.0
POLL_SECONDS = 0.25


def postgres_programs() -> Path:
    """The folder with initdb and postgres. Debian has them out of the PATH, one folder for each version."""
    versions = sorted(DEBIAN_VERSIONS.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    found = versions[-1] if versions else which("postgres")
    if found is None:
        raise AppUnavailable("no PostgreSQL server: on Debian, apt-get install postgresql")
    return Path(found).resolve().parent


def ordinary_user() -> list[str]:
    """What to put before a command so that PostgreSQL, which refuses to run as root, does not run as root.

    In a user namespace root has another number, and may read and write its own files all the same.
    """
    if os.geteuid() != 0:
        return []
    owner = pwd.getpwnam(DATABASE_OWNER)
    prefix = ["unshare", "--user", f"--map-user={owner.pw_uid}", f"--map-group={owner.pw_gid}"]
    try:
        subprocess.run([*prefix, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        raise AppUnavailable("PostgreSQL does not run as root: run the tests as an ordinary user") from None
    return prefix


@attrs.define
class Member:
    """Patroni with its PostgreSQL server."""

    name: str
    folder: Path
    programs: Path
    port: int
    api_port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "patroni.log"

    def settings(self, zookeeper: str) -> dict[str, object]:
        trust = [f"host all all {HOST}/32 trust", f"host replication all {HOST}/32 trust"]
        waits = {"ttl": SESSION_SECONDS, "loop_wait": LOOP_SECONDS, "retry_timeout": RETRY_SECONDS}
        return {
            "scope": "stories",
            "name": self.name,
            "zookeeper": {"hosts": zookeeper.split(",")},
            "restapi": {"listen": f"{HOST}:{self.api_port}", "connect_address": f"{HOST}:{self.api_port}"},
            "bootstrap": {"dcs": waits, "initdb": [{"encoding": "UTF8"}, {"auth": "trust"}]},
            "postgresql": {
                "listen": f"{HOST}:{self.port}",
                "connect_address": f"{HOST}:{self.port}",
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(self.programs),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {
                    "superuser": {"username": DATABASE_OWNER, "password": "secret"},
                    "replication": {"username": "replicator", "password": "secret"},
                },
                "parameters": {"unix_socket_directories": str(self.folder), "shared_buffers": "16MB"},
                "pg_hba": trust,
            },
        }

    def start(self, python: Path, user: Sequence[str], zookeeper: str) -> None:
        self.folder.mkdir()
        settings = self.folder / "patroni.yml"
        settings.write_text(yaml.safe_dump(self.settings(zookeeper)))
        with self.log.open("wb") as log:
            command = [*user, str(python), "-m", "patroni", str(settings)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """`kill -9` for Patroni and for PostgreSQL, which would go on without it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        with suppress(OSError, ValueError):
            os.kill(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)

    def says(self) -> dict[str, object]:
        """What Patroni says of itself; nothing while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.api_port}/patroni", timeout=5) as answer:
                told: dict[str, object] = json.load(answer)
        except urllib.error.HTTPError as refused:  # with the same text, while PostgreSQL starts
            return dict(json.load(refused))
        except OSError:
            return {}
        return told

    def query(self, statement: str) -> str:
        """Raises CalledProcessError."""
        address = f"host={HOST} port={self.port} user={DATABASE_OWNER} dbname=postgres connect_timeout=5"
        command = [str(self.programs / "psql"), address, "-X", "-A", "-t", "-c", statement]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()


@contextmanager
def cluster(
    python: Path, programs: Path, user: Sequence[str], zookeeper: str, folder: Path
) -> Iterator[list[Member]]:
    ports = iter(free_ports(4))
    members = [Member(name, folder / name, programs, next(ports), next(ports)) for name in ("ann", "bob")]
    with ExitStack() as stack:
        for member in members:
            stack.callback(member.kill)
            member.start(python, user, zookeeper)
        yield members


def wait_until(what: str, holds: Callable[[], bool], members: Sequence[Member]) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while not holds():
        logs = (f"{member.name}: {member.says()}\n{end_of(member.log)}" for member in members)
        assert time.monotonic() < deadline, "\n\n".join([f"not so: {what}", *logs])
        time.sleep(POLL_SECONDS)


def leader_of(members: Sequence[Member]) -> Member | None:
    """The one that leads, if all others follow it."""
    roles = {member.name: member.says() for member in members}
    leading = [member for member in members if roles[member.name].get("role") == "primary"]
    streaming = [name for name, told in roles.items() if told.get("replication_state") == "streaming"]
    return leading[0] if len(leading) == 1 and len(streaming) == len(members) - 1 else None


def settled(members: Sequence[Member]) -> Member:
    found: list[Member] = []

    def is_settled() -> bool:
        leader = leader_of(members)
        found.extend([leader] if leader else [])
        return bool(found)

    wait_until("one leads, the others follow", is_settled, members)
    return found[0]


def answers(member: Member, statement: str, answer: str) -> bool:
    try:
        return member.query(statement) == answer
    except subprocess.CalledProcessError:
        return False


def write(members: Sequence[Member], leader: Member, story: str) -> None:
    """Write through the leader, once it may, and read it from everybody."""
    statement = f"insert into stories values ('{story}')"
    wait_until(f"{leader.name} takes writes", partial(answers, leader, statement, "INSERT 0 1"), members)
    count = f"select count(*) from stories where name = '{story}'"
    for member in members:
        wait_until(f"{member.name} has {story}", partial(answers, member, count, "1"), members)


def test_one_leads_while_zookeeper_restarts_and_another_after_its_death(
    restartable: Service, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("client", f"Patroni {VERSION}")
    try:
        programs, user = postgres_programs(), ordinary_user()
        python = python_with("patroni", f"patroni[zookeeper]=={VERSION}", PSYCOPG)
    except AppUnavailable as reason:
        pytest.skip(str(reason))
    with cluster(python, programs, user, restartable.hosts, tmp_path) as members:
        leader = settled(members)
        leader.query("create table stories (name text)")
        write(members, leader, "first")
        restartable.stop(1)
        restartable.start(1)
        assert settled(members) is leader
        write(members, leader, "restarted")
        restartable.kill9(1)
        restartable.start(1)
        assert settled(members) is leader
        write(members, leader, "killed")

        leader.kill()

        (heir,) = (member for member in members if member is not leader)
        wait_until("the other one leads", lambda: heir.says().get("role") == "primary", [heir])
        write([heir], heir, "the leader is dead")
        kept = heir.query("select string_agg(name, ', ' order by name) from stories")
        assert kept == "first, killed, restarted, the leader is dead"
