"""HBase: a master and a region server, tables and rows while ZooKeeper is restarted and killed.

Who the master is, which region servers live and where the table of all regions lies stands in ZooKeeper; a
client finds its way from there.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from apps.java_programs import HEAP, JavaApp, end_of, run_tool, running
from support.reference import ReferenceUnavailable
from support.servers import HOST, free_ports
from support.targets import Service

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
POM = Path(__file__).with_name("pom.xml")
PROGRAM = Path(__file__).with_name("UseHBase.java")
VERSION = "2.6.4"
PACKAGE = "org.apache.hadoop.hbase"
# HBase's own start script gives these to a Java of today.
OPENED = (
    *(
        "java.lang",
        "java.lang.reflect",
        "java.io",
        "java.nio",
        "java.net",
        "java.util",
        "java.util.concurrent",
    ),
    *("sun.nio.ch", "jdk.internal.ref", "sun.nio.cs", "java.util.concurrent.atomic"),
)
FLAGS = (*HEAP, *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED))
LOG4J = """\
log4j.rootLogger=WARN, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d %p %m (%c)%n
"""


def write_settings(folder: Path, zookeeper: str) -> None:
    """A cluster of two processes of this machine, with a folder in the place of HDFS."""
    master, region_server = free_ports(2)
    host, _, port = zookeeper.rpartition(":")
    settings = {
        "hbase.cluster.distributed": "true",
        "hbase.rootdir": f"file://{folder}/data",
        "hbase.tmp.dir": folder / "scratch",
        "hbase.wal.provider": "filesystem",
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.zookeeper.quorum": host,
        "hbase.zookeeper.property.clientPort": port,
        "zookeeper.session.timeout": 15_000,
        "hbase.master.hostname": HOST,
        "hbase.master.ipc.address": HOST,
        "hbase.master.port": master,
        "hbase.master.info.port": -1,
        "hbase.regionserver.hostname": HOST,
        "hbase.regionserver.ipc.address": HOST,
        "hbase.regionserver.port": region_server,
        "hbase.regionserver.info.port": -1,
        "hbase.master.wait.on.regionservers.interval": 100,
        "hbase.client.registry.impl": f"{PACKAGE}.client.ZKConnectionRegistry",
    }
    lines = [
        f"<property><name>{key}</name><value>{escape(str(value))}</value></property>"
        for key, value in settings.items()
    ]
    (folder / "hbase-site.xml").write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))
    (folder / "log4j.properties").write_text(LOG4J)


@contextmanager
def cluster(hbase: JavaApp, folder: Path) -> Iterator[None]:
    with ExitStack() as stack:
        for name in ("master.HMaster", "regionserver.HRegionServer"):
            command = hbase.command(f"{PACKAGE}.{name}", "start", properties={}, folder=folder)
            stack.enter_context(running(command, folder / f"{name}.log"))
        yield


def use(hbase: JavaApp, folder: Path, *tables: str) -> None:
    """Make the last of the tables and read all of them. HBase's client waits for its cluster to come up."""
    said = run_tool(hbase.command(PROGRAM, *tables, properties={}, folder=folder))
    logs = [end_of(log) for log in sorted(folder.glob("*.log"))]
    assert f"ok {' '.join(tables)}\n" in said, "\n\n".join([said[-3000:], *logs])


def test_tables_and_rows_while_zookeeper_restarts(
    restartable: Service, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A table is made before, after a restart and after a kill; each time all of them are read."""
    record_property("client", f"HBase {VERSION}")
    try:
        hbase = JavaApp.fetched("hbase", POM, FLAGS)
    except ReferenceUnavailable as reason:
        pytest.skip(str(reason))
    write_settings(tmp_path, restartable.hosts)
    with cluster(hbase, tmp_path):
        use(hbase, tmp_path, "first")
        restartable.stop(1)
        restartable.start(1)
        use(hbase, tmp_path, "first", "restarted")
        restartable.kill9(1)
        restartable.start(1)
        use(hbase, tmp_path, "first", "restarted", "killed")
