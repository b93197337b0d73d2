"""Stock clients of other languages: sessions, nodes, watches, multi, ACLs, and a server that restarts.

`c/`, `go/`, `node/` and `rust/` hold the programs and their tests, programs.py says how they are run.
"""

import functools
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.programs import ClientUnavailable, Program, build, copied, run_program, tool
from support.targets import Service, Target, TargetUnavailable

HERE = Path(__file__).parent


def c_client() -> Program:
    """Debian's C client."""
    if not Path("/usr/include/zookeeper/zookeeper.h").exists():
        raise ClientUnavailable("no C client: on Debian, apt-get install libzookeeper-mt-dev")
    gcc = tool("gcc", "on Debian, apt-get install gcc")
    folder = copied(HERE / "c", "c-client")
    flags = ["-Wall", "-Wextra", "-DTHREADED", "-o", "client"]
    build([gcc, *flags, "client.c", "-lzookeeper_mt", "-lpthread"], folder)
    header = Path("/usr/include/zookeeper/zookeeper_version.h").read_text()
    numbers = [line.split()[2].strip('"') for line in header.splitlines() if line.startswith("#define ZOO_")]
    return Program(f"C client {'.'.join(numbers[:3])}", [str(folder / "client")])


def go_client() -> Program:
    go = tool("go", "install Go, 1.21 or later")
    folder = copied(HERE / "go", "go-client")
    build([go, "build", "-mod=mod", "-o", "client", "."], folder)
    return Program("go-zookeeper/zk 1.0.4", [str(folder / "client")])


def node_client() -> Program:
    node, npm = tool("node", "install Node.js, 18 or later"), tool("npm", "install npm")
    folder = copied(HERE / "node", "node-client")
    if not (folder / "node_modules" / "node-zookeeper-client").exists():
        build([npm, "install", "--no-audit", "--no-fund", "--silent"], folder)
    return Program("node-zookeeper-client 1.1.3", [node, str(folder / "client.js")])


def rust_client() -> Program:
    cargo = tool("cargo", "install Rust")
    folder = copied(HERE / "rust", "rust-client")
    build([cargo, "build", "--quiet"], folder)
    return Program("zookeeper-client 0.11.2 (Rust)", [str(folder / "target" / "debug" / "client")])


CLIENTS: dict[str, Callable[[], Program]] = {
    "c": c_client,
    "go": go_client,
    "node": node_client,
    "rust": rust_client,
}


@functools.cache
def built(language: str) -> Program | ClientUnavailable:
    """Built once: a failure takes long, and every test would ask again."""
    try:
        return CLIENTS[language]()
    except ClientUnavailable as reason:
        return reason


_said: dict[tuple[str, str], dict[str, str]] = {}


def said_by(language: str, program: Program, target: Target) -> dict[str, str]:
    """What the client said of each feature with a service of this target; it is run once."""
    key = (language, target.name)
    if key not in _said:
        _said[key] = run_on(target, program)
    return _said[key]


def run_on(target: Target, program: Program) -> dict[str, str]:
    try:
        with target.restartable() as service:
            return run_program(program, service, lambda: restart(service))
    except TargetUnavailable as reason:
        with target.one() as shared:
            return {"reconnect": f"skipped: {reason}"} | run_program(program, shared, None)


def restart(service: Service) -> None:
    service.stop(1)
    service.start(1)


def check_feature(
    language: str, feature: str, target: Target, record_property: Callable[[str, object], None]
) -> None:
    """What a test of one feature of a client does."""
    program = built(language)
    if isinstance(program, ClientUnavailable):
        pytest.skip(str(program))
    record_property("client", program.title)
    try:
        said = said_by(language, program, target)[feature]
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"the program did not end in time: {late}") from None
    if said.startswith("skipped: "):
        pytest.skip(said.removeprefix("skipped: "))
    assert said == "ok"
