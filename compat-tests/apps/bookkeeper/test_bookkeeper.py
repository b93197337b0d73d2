"""BookKeeper: a cluster of one bookie, ledgers written and read while ZooKeeper is restarted and killed."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import attrs
import pytest

from apps.java_programs import HEAP, JavaApp, run_tool, running
from support.reference import ReferenceUnavailable
from support.servers import free_ports
from support.targets import Service

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
POM = Path(__file__).with_name("pom.xml")
ENTRIES = 100
READY_SECONDS_MAX = 120


@attrs.frozen
class BookKeeper:
    """BookKeeper's classes and a configuration."""

    app: JavaApp
    folder: Path

    @classmethod
    def in_folder(cls, folder: Path, zookeeper: str) -> "BookKeeper":
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
        flags = (*HEAP, "--add-opens=java.base/java.nio=ALL-UNNAMED")
        return cls(JavaApp.fetched("bookkeeper", POM, flags), folder)

    def command(self, main: str, *arguments: str) -> list[str]:
        quiet = {"org.slf4j.simpleLogger.defaultLogLevel": "warn"}
        return self.app.command(f"org.apache.bookkeeper.{main}", *arguments, properties=quiet)

    def shell(self, *arguments: str) -> str:
        """What BookKeeper's shell says to a command."""
        return run_tool(self.command("bookie.BookieShell", "-conf", str(self.folder / "bk.conf"), *arguments))

    def bookie(self) -> AbstractContextManager[None]:
        """A bookie, ended with the block."""
        command = self.command("server.Main", "--conf", str(self.folder / "bk.conf"))
        return running(command, self.folder / "bookie.log")

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
