"""Apache ZooKeeper's own JUnit tests of its client, from the released `tests` jar, with a server outside.

Each test class starts a server in its own process. A subclass (Outside.java.template) leaves that out and
uses the server that it is given, with an empty tree for each test. Tests that look inside the server, or
restart it, cannot work so; they fail with any server, Apache's too. Two classes are left out, because they
never end that way, whichever the server: ChrootAsyncTest and ChrootClientTest.
"""

import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

from clients.java.programs import RUN_SECONDS_MAX
from support.reference import ReferenceUnavailable, cache_dir_of, resolve_jars
from support.targets import Service

HERE: Final = Path(__file__).parent
POM: Final = HERE / "pom.xml"
TEMPLATE: Final = HERE / "Outside.java.template"
CLASSES: Final = (
    "GetAllChildrenNumberTest",
    "GetEphemeralsTest",
    "RemoveWatchesTest",
    "test.AsyncOpsTest",
    "test.ChrootTest",
    "test.ClientTest",
    "test.CreateTest",
    "test.GetChildren2Test",
    "test.MultiAsyncTransactionTest",
    "test.MultiOperationTest",
    "test.NullDataTest",
    "test.PersistentRecursiveWatcherTest",
    "test.PersistentWatcherACLTest",
    "test.PersistentWatcherTest",
    "test.StatTest",
    "test.SyncCallTest",
    "test.WatcherFuncTest",
)


def run_class(name: str, service: Service, folder: Path) -> dict[str, str]:
    """Why each test of a class failed, by its name; "" if it passed. Raises ReferenceUnavailable."""
    java = shutil.which("java")
    if java is None:
        raise ReferenceUnavailable("no java on the PATH: install a JDK, 11 or later")
    jars = resolve_jars(POM, cache_dir_of("junit-suite", POM.read_bytes()))
    subprocess.run(
        [
            *(java, "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dzookeeper.admin.enableServer=false"),
            *(f"-Doutside.hosts={service.hosts}", f"-Dbuild.test.dir={folder}"),
            *("-cp", f"{_compiled(jars)}:{jars}/*", "org.junit.platform.console.ConsoleLauncher", "execute"),
            *("--select-class", f"outside.{_own_name(name)}", "--details=none"),
            f"--reports-dir={folder}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    cases = ET.parse(folder / "TEST-junit-jupiter.xml").getroot().iter("testcase")
    return {str(case.get("name")): _failure(case) for case in cases}


def _failure(case: ET.Element) -> str:
    for kind in ("failure", "error"):
        found = case.find(kind)
        if found is not None:
            return found.get("message") or found.get("type") or kind
    return ""


def _own_name(name: str) -> str:
    return "Outside" + name.rpartition(".")[2]


def _compiled(jars: Path) -> Path:
    javac = shutil.which("javac")
    if javac is None:
        raise ReferenceUnavailable("no javac on the PATH: install a JDK, 11 or later")
    template = TEMPLATE.read_text()
    classes = cache_dir_of("junit-classes", (str(jars) + template + "".join(CLASSES) + "quiet").encode())
    if not (classes / "compiled").exists():
        sources = classes / "sources"
        sources.mkdir(parents=True, exist_ok=True)
        for name in CLASSES:
            text = template.format(name=_own_name(name), base=f"org.apache.zookeeper.{name}")
            (sources / f"{_own_name(name)}.java").write_text(text)
        command = [javac, "--release", "11", "-nowarn", "-proc:none", "-d", str(classes), "-cp", f"{jars}/*"]
        files = [str(path) for path in sorted(sources.glob("*.java"))]
        compiled = subprocess.run([*command, *files], check=False, capture_output=True, text=True)
        assert compiled.returncode == 0, compiled.stderr
        (classes / "logback.xml").write_text('<configuration><root level="OFF" /></configuration>\n')
        (classes / "compiled").touch()
    return classes
