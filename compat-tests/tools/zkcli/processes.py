"""zkCli as a process, Apache's or ours: fed line by line through a pipe, its two outputs kept apart.

    with start_process("reference")(["-server", server.host_port], False) as zkcli:
        zkcli.read_start()
        zkcli.enter("ls /")      # an Answer: stdout, stderr, and the prompt that follows

A command has ended when the next prompt is there or the process is gone; all it wrote to stderr was written
before that. Watch events come from another thread of Apache's, at any time: they are taken out and kept in
order, apart from the answers.
"""

import codecs
import functools
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol, Self, TypeAlias

import attrs

from support.reference import find_reference
from support.servers import CHECKOUT

Shell: TypeAlias = Literal["reference", "triokeeper"]

ANSWER_SECONDS_MAX = 60.0
PROMPT = re.compile(r"\[zk: .*\([A-Z_]+\) \d+\] \Z")
EVENT = re.compile(r"\nWATCHER::\n|\n(WatchedEvent state:.*)\n")
QUIET_LOGBACK = '<configuration><root level="OFF"/></configuration>\n'


@attrs.frozen
class Answer:
    """What one command wrote; `prompt` is None if the process ended instead of asking for the next."""

    out: str
    err: str
    prompt: str | None


class Running(Protocol):
    """A zkCli that was started."""

    events: list[str]

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def read_start(self) -> Answer:
        """What it says before the first command is entered."""

    def enter(self, line: str) -> Answer:
        """What it says to a line."""

    def end_input(self, last: str = "") -> Answer:
        """What it says when there is no more input, which for a one-shot command is all.

        `last` is a line that has no end.
        """

    def exit_code(self) -> int: ...


# Given the arguments, and whether they hold a command.
Start: TypeAlias = Callable[[Sequence[str], bool], Running]


def start_process(shell: Shell) -> Start:
    return lambda arguments, _: ZkCli(shell, arguments)


def split_events(text: str) -> tuple[str, list[str]]:
    """The output without watch events, and the events."""
    return EVENT.sub("", text), [found[1] for found in EVENT.finditer(text) if found[1]]


def command_line(shell: Shell, arguments: Sequence[str]) -> list[str]:
    """How to run it; raises ReferenceUnavailable where there is no Java."""
    if shell == "triokeeper":
        return [sys.executable, "-c", "from server.command import main; main()", "zkcli", *arguments]
    reference = find_reference()
    flags = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-Duser.language=en"]
    path = f"{_quiet_conf()}:{reference.class_path.partition(':')[2]}"  # without its own logging set-up
    return [reference.java, *flags, "-cp", path, "org.apache.zookeeper.ZooKeeperMain", *arguments]


@functools.cache
def _quiet_conf() -> str:
    """A folder whose logging set-up comes first on the class path and says nothing."""
    folder = tempfile.mkdtemp(prefix="zkcli-conf-")
    Path(folder, "logback.xml").write_text(QUIET_LOGBACK)
    return folder


class ZkCli:
    """One running process."""

    def __init__(self, shell: Shell, arguments: Sequence[str]) -> None:
        self.events: list[str] = []
        self._process = subprocess.Popen(
            command_line(shell, arguments),
            env=os.environ | {"PYTHONPATH": str(CHECKOUT), "TZ": "UTC"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._selector = selectors.DefaultSelector()
        self._texts = {"out": "", "err": ""}
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in self._texts}
        for name, stream in (("out", self._process.stdout), ("err", self._process.stderr)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def read_start(self) -> Answer:
        return self._read_answer(until_prompt=True)

    def enter(self, line: str) -> Answer:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # It has ended; what it said is still there.
        return self._read_answer(until_prompt=True)

    def end_input(self, last: str = "") -> Answer:
        assert self._process.stdin is not None
        self._process.stdin.write(last.encode())
        self._process.stdin.close()
        return self._read_answer(until_prompt=False)

    def exit_code(self) -> int:
        return self._process.wait(ANSWER_SECONDS_MAX)

    def _read_answer(self, *, until_prompt: bool) -> Answer:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            self._take_out_events()
            out = self._texts["out"]
            prompt = PROMPT.search(out) if until_prompt else None
            if prompt or not self._selector.get_map():
                break
            assert time.monotonic() < deadline, f"no prompt after {ANSWER_SECONDS_MAX} s: {out!r}"
            self._read_once(1)
        self._read_once(0)  # what stderr still holds, and perhaps the beginning of an event
        self._texts["out"] = self._texts["out"][len(out) :]
        err, self._texts["err"] = self._texts["err"], ""
        return Answer(out[: prompt.start()] if prompt else out, err, prompt[0] if prompt else None)

    def _take_out_events(self) -> None:
        self._texts["out"], events = split_events(self._texts["out"])
        self.events += events

    def _read_once(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            read = os.read(key.fd, 1 << 16)
            if read:
                self._texts[key.data] += self._decoders[key.data].decode(read)
            else:
                self._selector.unregister(key.fileobj)
