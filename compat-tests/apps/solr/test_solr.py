"""Solr: collections and documents on two nodes while ZooKeeper is restarted and killed.

Who lives, who leads a shard and what a collection is made of stands in ZooKeeper, and the work of making a
collection is a queue there, which the node that was elected overseer takes from.
"""

import io
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from apps.java_programs import JavaApp, end_of, running
from support.reference import ReferenceUnavailable
from support.servers import HOST, free_ports
from support.targets import Service

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
POM = Path(__file__).with_name("pom.xml")
NODE = Path(__file__).with_name("SolrNode.java")
VERSION = "9.10.0"
DOCUMENTS = 50
READY_SECONDS_MAX = 120.0
ASK_SECONDS_MAX = 60.0
POLL_SECONDS = 0.5
SOLR_XML = """\
<solr>
  <solrcloud>
    <str name="host">127.0.0.1</str>
    <int name="hostPort">${solr.port.advertise}</int>
    <str name="hostContext">solr</str>
    <int name="zkClientTimeout">15000</int>
  </solrcloud>
</solr>
"""
CONFIG_SET = {
    "solrconfig.xml": """\
<config>
  <luceneMatchVersion>9.0</luceneMatchVersion>
  <schemaFactory class="ClassicIndexSchemaFactory" />
  <updateHandler class="solr.DirectUpdateHandler2"><updateLog /></updateHandler>
  <requestHandler name="/select" class="solr.SearchHandler" />
</config>
""",
    "schema.xml": """\
<schema name="stories" version="1.6">
  <fieldType name="string" class="solr.StrField" />
  <fieldType name="long" class="solr.LongPointField" docValues="true" />
  <field name="id" type="string" required="true" />
  <field name="text" type="string" />
  <field name="_version_" type="long" />
  <uniqueKey>id</uniqueKey>
</schema>
""",
}


@attrs.frozen
class Node:
    """One that is started; `ask` raises OSError while it does not serve."""

    port: int
    log: Path

    def ask(
        self, path: str, body: bytes | None = None, kind: str = "application/json", **query: object
    ) -> Any:
        url = f"http://{HOST}:{self.port}/solr/{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, data=body, headers={"Content-Type": kind})
        with urllib.request.urlopen(request, timeout=ASK_SECONDS_MAX) as answer:
            return json.load(answer)

    def insist(self, done: Callable[[], bool], what: str) -> None:
        """Try until it is done: while ZooKeeper is away, Solr refuses what needs it."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        problem: object = "not yet"
        while time.monotonic() < deadline:
            try:
                if done():
                    return
            except urllib.error.HTTPError as refused:
                problem = refused.read().decode(errors="replace")[-1500:]
            except OSError as failed:
                problem = failed
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"{what}: {problem}\n{end_of(self.log)}")


@contextmanager
def solr_node(solr: JavaApp, folder: Path, zookeeper: str) -> Iterator[Node]:
    (port,) = free_ports(1)
    folder.mkdir()
    (folder / "solr.xml").write_text(SOLR_XML)
    settings = {"zkHost": zookeeper, "solr.port.advertise": port, "solr.log.dir": folder}
    log = folder / "node.log"
    with running(solr.command(NODE, folder, port, properties=settings), log):
        yield Node(port, log)


def upload_config_set(node: Node, name: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file, text in CONFIG_SET.items():
            archive.writestr(file, text)
    node.ask("admin/configs", packed.getvalue(), "application/octet-stream", action="UPLOAD", name=name)


def live_nodes(node: Node) -> int:
    return len(node.ask("admin/collections", action="CLUSTERSTATUS")["cluster"]["live_nodes"])


def collections(node: Node) -> list[str]:
    found: list[str] = node.ask("admin/collections", action="LIST")["collections"]
    return found


def use(nodes: Sequence[Node], collection: str) -> None:
    """Make a collection with a replica on each node, fill it through the one, read it through the other."""
    one, other = nodes
    one.insist(lambda: live_nodes(one) == len(nodes), "both nodes are live")

    def made() -> bool:
        if collection not in collections(one):
            layout: dict[str, Any] = {"numShards": 1, "replicationFactor": len(nodes)}
            layout |= {"collection.configName": "stories"}
            one.ask("admin/collections", action="CREATE", name=collection, **layout)
        return collection in collections(other)

    one.insist(made, f"{collection} is made")
    documents = [{"id": str(number), "text": f"{collection} {number}"} for number in range(DOCUMENTS)]
    body = json.dumps(documents).encode()

    def filled() -> bool:
        one.ask(f"{collection}/update", body, commit="true")
        return True

    one.insist(filled, f"{collection} takes documents")

    def read() -> bool:
        found: int = other.ask(f"{collection}/select", q="*:*", rows=0)["response"]["numFound"]
        return found == DOCUMENTS

    other.insist(read, f"{collection} has {DOCUMENTS} documents")


def test_collections_and_documents_while_zookeeper_restarts(
    restartable: Service, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A collection is made before, after a restart and after a kill; at the end all are there."""
    record_property("client", f"Solr {VERSION}")
    try:
        solr = JavaApp.fetched("solr", POM)
    except ReferenceUnavailable as reason:
        pytest.skip(str(reason))
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(solr_node(solr, tmp_path / name, restartable.hosts))
            for name in ("one", "other")
        )
        for node in (one, other):
            node.insist(lambda node=node: live_nodes(node) > 0, "a node serves")  # type: ignore[misc]
        upload_config_set(one, "stories")
        use((one, other), "first")
        restartable.stop(1)
        restartable.start(1)
        use((other, one), "restarted")
        restartable.kill9(1)
        restartable.start(1)
        use((one, other), "killed")
        assert sorted(collections(other)) == ["first", "killed", "restarted"]
