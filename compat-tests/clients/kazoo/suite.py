"""Kazoo's own test suite, out of its released wheel and through its own harness, against either server.

    results = run_suite("triokeeper", servers=1)

The harness starts `java ... QuorumPeerMain zoo.cfg`; `java_stand_in.py` answers to that name when Triokeeper
is to be tested, and nothing of Kazoo is changed. Its tests need further libraries, some of them in old
releases, so they live in a virtual environment of their own, made once and kept in the cache.

`run_suite.py` is the command line.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import venv
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from clients.kazoo import java_stand_in
from support.reference import find_reference
from support.servers import HOST, PORTS_BELOW_EPHEMERAL, Kind

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]
Results: TypeAlias = Mapping[
    str, Outcome
]  # by the test's name, such as test_lock.py::KazooLockTests::test_lock

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
VERSION = "3.9.5"  # what the harness is told that it starts
TEST_SECONDS_MAX = 180
SUITE_SECONDS_MAX = 3600
STDERR = "stderr"  # a file, because clients of ended tests log there by the thousand
PORTS_PER_SERVER = 10  # Kazoo numbers a server's ports from a round number


class SuiteUnavailable(Exception):
    """Kazoo's tests cannot be run here; the message says why."""


def run_suite(
    kind: Kind,
    *,
    servers: int = 1,
    tests: Iterable[str] = (),
    without: Iterable[str] = (),
    quiet: bool = False,
) -> Results:
    """Run the named tests (files, classes or tests; all, if none is named) and say how each ended."""
    python = suite_python()
    suite = _suite_folder(python)
    with tempfile.TemporaryDirectory(prefix="kazoo-suite-") as scratch:
        report = Path(scratch) / "report.xml"
        command = [str(python), *_pytest_flags(suite, report)]
        command += [f"--deselect=kazoo/tests/{name}" for name in without]
        command += [str(suite / name) for name in tests] or [str(suite)]
        _run(command, _environment(kind, servers, Path(scratch)), Path(scratch), quiet=quiet)
        if not report.exists():
            said = (Path(scratch) / STDERR).read_text(errors="replace").strip()
            raise SuiteUnavailable(f"pytest ended without a report: {said[-500:]}")
        return dict(_outcomes(report))


def suite_python() -> Path:
    """The interpreter of the suite's virtual environment, made now if this is the first time."""
    text = REQUIREMENTS.read_text()
    digest = hashlib.sha256(f"{text}{sys.version_info[:2]}".encode()).hexdigest()[:8]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "triokeeper"
    folder = cache / f"kazoo-suite-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once make it once
        if not (folder / "ready").exists():
            venv.create(folder, with_pip=True)
            install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(REQUIREMENTS)]
            pip = subprocess.run([python, *install], check=False, capture_output=True, text=True)
            if pip.returncode:
                raise SuiteUnavailable(f"pip could not install Kazoo's tests: {pip.stderr.strip()[-500:]}")
            (folder / "ready").touch()
    return python


def _suite_folder(python: Path) -> Path:
    where = "import kazoo.tests; print(kazoo.tests.__path__[0])"
    found = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())


def _pytest_flags(suite: Path, report: Path) -> list[str]:
    site_packages = suite.parent.parent  # names of tests are then kazoo/tests/test_x.py::... wherever it lies
    return [
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"),
        *(f"--rootdir={site_packages}", "-c", os.devnull, "--tb=short"),
        *(f"--timeout={TEST_SECONDS_MAX}", f"--junitxml={report}"),
    ]


def _environment(kind: Kind, servers: int, scratch: Path) -> dict[str, str]:
    """What the harness reads; Triokeeper stands in by being the first `java` on the PATH."""
    environment = {key: value for key, value in os.environ.items() if key not in ("CI", "PYTHONPATH")}
    environment |= {
        "ZOOKEEPER_VERSION": VERSION,
        "ZOOKEEPER_CLUSTER_SIZE": str(servers),
        "ZOOKEEPER_PORT_OFFSET": str(_free_ports_in_a_row(servers * PORTS_PER_SERVER)),
    }
    if kind == "reference":
        return environment | {"ZOOKEEPER_CLASSPATH": find_reference().class_path}
    java_stand_in.install(scratch)
    return environment | {"ZOOKEEPER_CLASSPATH": "none", "PATH": f"{scratch}:{environment['PATH']}"}


def _free_ports_in_a_row(count: int) -> int:
    while True:
        first = secrets.choice(PORTS_BELOW_EPHEMERAL)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind((HOST, port))
            return first


def _run(command: Sequence[str], environment: Mapping[str, str], folder: Path, *, quiet: bool) -> None:
    """Run it to its end; whatever happens, neither it nor a server it started outlives this call."""
    with (folder / STDERR).open("wb") as stderr:
        suite = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if quiet else None,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        suite.wait(SUITE_SECONDS_MAX)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(suite.pid, signal.SIGKILL)
        suite.wait()


def _outcomes(report: Path) -> Iterator[tuple[str, Outcome]]:
    """A test whose tear-down failed is reported twice, and has failed."""
    failed: set[str] = set()
    for case in ElementTree.parse(report).iter("testcase"):
        name = _name(case.attrib["classname"], case.attrib["name"])
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(name)
        yield name, "failed" if name in failed else "passed" if case.find("skipped") is None else "skipped"


def _name(class_name: str, name: str) -> str:
    """kazoo.tests.test_lock.KazooLockTests and test_lock, as pytest is asked for it."""
    module, *classes = class_name.removeprefix("kazoo.tests.").split(".")
    return "::".join([f"{module}.py", *classes, name])
