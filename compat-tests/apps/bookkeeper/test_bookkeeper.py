"""BookKeeper: a cluster of one bookie, ledgers written and read while ZooKeeper is restarted and killed."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from support.reference import ReferenceUnavailable, cache_dir_of, resolve_jars
from support.servers import free_ports
from support.targets import Service

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
POM = Path(__file__).with_name("pom.xml")
ENTRIES = 100
READY_SECONDS_MAX = 120


@attrs.frozen
class BookKeeper:
    """BookKeeper's classes and a configuration."""

    java: str
    jars: Path
    folder: Path

    @classmethod
    def in_folder(cls, folder: Path, zookeeper: str) -> "BookKeeper":
        java = shutil.which("java")
        if java is None:
            raise ReferenceUnavailable("no java on the PATH: install a Java runtime, 11 or later")
        (port,) = free_ports(1)
        settings = {
            "bookiePort": port,
            "allowLoopback": "true",
            "advertisedAddress": "127.0.0.1",
            "journalDirectories": folder / "journal",
            "ledgerDirectories": folder / "ledgers",
            "metadataServiceUri": f"zk+hierarchical://{zookeeper.replace(',', ';')}/ledgers",
            "zkTimeout": 15_000,
            "httpServerEnabled": "false",
            "diskUsageThreshold": "0.999",
            "diskUsageWarnThreshold": "0.999",
        }
        (folder / "bk.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return cls(java, resolve_jars(POM, cache_dir_of("bookkeeper", POM.read_bytes())), folder)

    def command(self, main: str, *arguments: str) -> list[str]:
        flags = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        flags.append("--add-opens=java.base/java.nio=ALL-UNNAMED")
        return [self.java, *flags, "-cp", f"{self.jars}/*", f"org.apache.bookkeeper.{main}", *arguments]

    def shell(self, *arguments: str) -> str:
        """What BookKeeper's shell says to a command."""
        ended = subprocess.run(
            self.command("bookie.BookieShell", "-conf", str(self.folder / "bk.conf"), *arguments),
            check=False,
            timeout=300,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return f"{ended.stdout}\nexit code {ended.returncode}"

    @contextmanager
    def bookie(self) -> Iterator[None]:
        """A bookie, ended with the block."""
        with (self.folder / "bookie.log").open("wb") as log:
            process = subprocess.Popen(
                self.command("server.Main", "--conf", str(self.folder / "bk.conf")),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            try:
                yield
                assert process.poll() is None, (self.folder / "bookie.log").read_text()[-4000:]
            finally:
                process.kill()
                process.wait()

    def write_and_read(self) -> None:
        """Write a ledger and read it back, once the bookie is registered."""
        quorum = ("-ensemble", "1", "-writeQuorum", "1", "-ackQuorum", "1", "-numEntries", str(ENTRIES))
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not (said := self.shell("simpletest", *quorum)).endswith("exit code 0"):
            assert time.monotonic() < deadline, said[-3000:]


def test_ledgers_while_zookeeper_restarts(
    restartable: Service, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Where a ledger is and who may write it stands in ZooKeeper, and so does every bookie."""
    record_property("client", "BookKeeper 4.17.2")
    try:
        bookkeeper = BookKeeper.in_folder(tmp_path, restartable.hosts)
    except ReferenceUnavailable as reason:
        pytest.skip(str(reason))
    made = bookkeeper.shell("initnewcluster")
    assert made.endswith("exit code 0"), made[-3000:]
    with bookkeeper.bookie():
        bookkeeper.write_and_read()
        restartable.stop(1)
        restartable.start(1)
        bookkeeper.write_and_read()
        restartable.kill9(1)
        restartable.start(1)
        bookkeeper.write_and_read()
