"""What Apache ZooKeeper's own scripts print: read from `script_recordings.txt`, run again with any scripts.

Maven Central has ZooKeeper's classes but not its scripts, so their output was recorded once from a release:

    PYTHONPATH=compat-tests python -m tools.script_recordings APACHE_HOME  (whose `bin` holds zkServer.sh)

A scenario is a block of lines, each a word, a colon and the rest:

    scenario        its name
    file            a path, a blank, and one line of that file; {home} is the folder of the scenario
    env             NAME=value
    wait            until a server answers at {port}
    run             a script and its arguments; the lines below tell what it said:
    out, err, exit  a line of standard output, one of standard error, the exit code

`err: *` stands for any text on standard error: the original shows errors of grep or mkdir there, or Java's.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from support.servers import HOST, free_ports

RECORDINGS = Path(__file__).with_suffix(".txt")
ANYTHING = "*"
QUIET_LOGBACK = '<configuration><root level="OFF"/></configuration>'
RUN_SECONDS_MAX = 60
SERVING_SECONDS_MAX = 30.0


@attrs.frozen
class Said:
    """What one run of a script wrote, line by line, and its exit code."""

    out: list[str]
    err: list[str]
    exit_code: int

    @property
    def lines(self) -> list[str]:
        out, err = [f"out: {line}" for line in self.out], [f"err: {line}" for line in self.err]
        return [*out, *err, f"exit: {self.exit_code}"]


@attrs.frozen
class Scenario:
    """Lines that set the scene, runs of scripts, and what was recorded of them."""

    name: str
    lines: list[tuple[str, str]]

    def check(self, scripts: Path, home: Path) -> None:
        """Run it with the scripts in a folder, and compare all that they say."""
        expected: list[tuple[str, list[str]]] = []
        for word, rest in self.lines:
            if word == "run":
                expected.append((rest, []))
            elif word in ("out", "err", "exit"):
                expected[-1][1].append(comparable(f"{word}: {rest}"))
        for (run, recorded), said in zip(expected, self.play(scripts, home), strict=True):
            lines = [comparable(line) for line in said.lines]
            if f"err: {ANYTHING}" in recorded:
                lines = [line for line in lines if not line.startswith("err:")]
                recorded = [line for line in recorded if not line.startswith("err:")]
            assert lines == recorded, f"{self.name}: {run}"

    def play(self, scripts: Path, home: Path) -> Iterator[Said]:
        """Run the scripts one after the other in a fresh home."""
        port = free_ports(1)[0]
        places = {"home": str(home), "port": str(port)}
        environ = base_environment(home)
        for word, rest in self.lines:
            text = filled(rest, places)
            if word == "file":
                path_in_home, _, line = text.partition(" ")
                path = home / path_in_home
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as file:
                    file.write(f"{line}\n")
            elif word == "env":
                name, _, value = text.partition("=")
                environ[name] = value
            elif word == "wait":
                wait_until_serving(port)
            elif word == "run":
                yield run_script(scripts, text, environ, places)


def comparable(line: str) -> str:
    """Columns are as wide as the paths in them, and some lines end in a blank."""
    return re.sub(" +", " ", line).rstrip()


def base_environment(home: Path) -> dict[str, str]:
    """The same for both kinds of scripts; JAVA_HOME keeps Apache's from printing where Java is."""
    java = shutil.which("java")
    java_home = {"JAVA_HOME": str(Path(java).resolve().parents[1])} if java else {}
    (home / "logback.xml").write_text(QUIET_LOGBACK)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "USER": "zk",
        "HOSTNAME": "host",
        "ZOOCFGDIR": f"{home}/conf",
        "ZOO_LOG_DIR": f"{home}/logs",
        "JVMFLAGS": f"-XX:TieredStopAtLevel=1 -Dlogback.configurationFile={home}/logback.xml",
    } | java_home


def filled(text: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def run_script(scripts: Path, command: str, environ: Mapping[str, str], places: Mapping[str, str]) -> Said:
    name, *arguments = shlex.split(command)
    done = subprocess.run(
        [scripts / name, *arguments],
        cwd=places["home"],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=RUN_SECONDS_MAX,
        text=True,
    )

    def masked(text: str) -> list[str]:
        text = text.replace(str(scripts), "{bin}")
        for place, value in places.items():
            text = text.replace(value, f"{{{place}}}")
        return re.sub(r"\bprocess \d+", "process {pid}", text).splitlines()

    return Said(masked(done.stdout), masked(done.stderr), done.returncode)


def wait_until_serving(port: int) -> None:
    import socket

    deadline = time.monotonic() + SERVING_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((HOST, port), timeout=5) as probe:
                probe.sendall(b"srvr")
                if b"Mode" in b"".join(iter(lambda: probe.recv(4096), b"")):
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"nobody serves at port {port}")


def read_scenarios(text: str) -> list[Scenario]:
    scenarios: list[Scenario] = []
    for line in text.splitlines():
        word, _, rest = line.partition(":")
        if line.startswith("#") or not line:
            continue
        if word == "scenario":
            scenarios.append(Scenario(rest.strip(), []))
        else:
            scenarios[-1].lines.append((word, rest.removeprefix(" ")))
    return scenarios


def record(scripts: Path) -> str:
    """The recordings with what these scripts say in place of what stands there; comments stay."""
    text = RECORDINGS.read_text()
    parts = [line for line in text.splitlines() if line.startswith("#")]
    for scenario in read_scenarios(text):
        parts += ["", f"scenario: {scenario.name}"]
        is_any_err = ("err", ANYTHING) in scenario.lines
        with tempfile.TemporaryDirectory(prefix="zk-scripts-") as home:
            said = scenario.play(scripts, Path(home))
            for word, rest in scenario.lines:
                if word in ("out", "err", "exit"):
                    continue
                parts.append(f"{word}: {rest}")
                if word == "run":
                    lines = next(said).lines
                    if is_any_err:
                        lines = [line for line in lines if not line.startswith("err:")]
                        lines.insert(-1, f"err: {ANYTHING}")
                    parts += [line.rstrip() for line in lines]
            list(said)
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    RECORDINGS.write_text(record(Path(sys.argv[1]).resolve() / "bin"))
