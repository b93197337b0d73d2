"""Small programs on stock client libraries of other languages, each run once against a server.

A program gets the connect string and a path of its own, tries one feature after the other, and says for each
`ok FEATURE` or `failed FEATURE: why`. Before the last one, `reconnect`, it says `restart` and waits for a
line: `done` once its server has been restarted, `no` if that cannot be done, and then leaves it out.

Libraries come from the language's own registry, once, to ~/.cache/triokeeper.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from support.reference import cache_dir_of
from support.targets import Service

FEATURES: Final = (
    "session",
    "nodes",
    "versions",
    "sequence",
    "ephemerals",
    "watches",
    "multi",
    "acls",
    "reconnect",
)
BUILD_SECONDS_MAX: Final = 900
RUN_SECONDS_MAX: Final = 120


class ClientUnavailable(Exception):
    """The client cannot be run here; the message says what is missing."""


@attrs.frozen
class Program:
    """A client that is ready to run."""

    title: str  # the library and its version
    command: Sequence[str]
    environment: Mapping[str, str] = attrs.field(factory=dict)


def run_program(program: Program, service: Service, restart: Callable[[], None] | None) -> dict[str, str]:
    """What the program said of each feature: "ok", or why not. Features it did not come to are missing."""
    hosts, slash, chroot = service.hosts.partition("/")  # not every client takes a chroot in it
    top = f"{slash}{chroot}/client-{secrets.token_hex(4)}"
    with subprocess.Popen(
        [*program.command, hosts, top],
        env=os.environ | dict(program.environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said: dict[str, str] = {}
        other: list[str] = []
        try:
            for line in process.stdout:
                word, _, rest = line.strip().partition(" ")
                if word == "ok":
                    said[rest] = "ok"
                elif word == "failed":
                    feature, _, why = rest.partition(": ")
                    said[feature] = why or "it does not say why"
                elif word == "restart":
                    if restart is not None:
                        restart()
                    print("no" if restart is None else "done", file=process.stdin, flush=True)
                else:
                    other.append(line)
        finally:
            process.kill()
    for feature in FEATURES[:-1]:
        said.setdefault(feature, f"the program ended before it: {''.join(other[-20:])}")
    return said


def tool(name: str, remedy: str) -> str:
    """A command that must be there. Raises ClientUnavailable."""
    found = shutil.which(name)
    if found is None:
        raise ClientUnavailable(f"no {name} on the PATH: {remedy}")
    return found


def build(command: Sequence[str], folder: Path) -> None:
    """Run a compiler or an installer. Raises ClientUnavailable with the end of what it said."""
    try:
        subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_SECONDS_MAX,
            check=True,
            text=True,
        )
    except subprocess.CalledProcessError as failed:
        raise ClientUnavailable(f"{command[0]} failed: {failed.stdout[-800:]}") from None
    except subprocess.TimeoutExpired:
        raise ClientUnavailable(f"{command[0]} did not end within {BUILD_SECONDS_MAX} s") from None


def copied(sources: Path, name: str) -> Path:
    """A folder in the cache with these sources, where they can be built; another source, another folder."""
    files = sorted(
        path for path in sources.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")
    )
    cache = cache_dir_of(name, b"".join(path.read_bytes() for path in files))
    for path in files:
        target = cache / path.relative_to(sources)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return cache
