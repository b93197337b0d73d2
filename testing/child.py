"""The server's process, and the conversation with it: JSON lines over its standard input and output.

The process ends when its standard input does, so it never outlives the one that started it. While it is
paused it cannot notice that; a shell that waits for the same end continues it then. It has a process group
of its own: Ctrl-C is for the tests alone.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from . import forks
from .errors import ServerError

ANSWER_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 15.0
LOG_TAIL_LINES = 30
# They configure servers, change how the tests' Python behaves, or name whoever started it: not for ours.
_NOT_FOR_US = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS", "PYTHONDEVMODE"),
    *("PYTHONOPTIMIZE", "PYTHONIOENCODING", "JVMFLAGS", "SERVER_JVMFLAGS", "KAFKA_OPTS"),
    *("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "_TRIOKEEPER_COMPLETE"),
)
# The path of the tests comes last there: a project's own `trio` or `server` is not found first, and a
# Triokeeper that only PYTHONPATH names is found.
_PROGRAM = """
import json, sys
sys.path += [place for place in json.loads(sys.argv.pop(1)) if place not in sys.path]
from triokeeper import main
main()
"""


def _command(*arguments: str) -> list[str]:
    places = json.dumps([os.path.abspath(place) for place in sys.path if place])
    return [sys.executable, "-P", "-c", _PROGRAM, places, *arguments]


def _environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_US}
    return kept | {"TRIOKEEPER_LOG": "plain"}


def change_tree(hosts: str, how: str, path: str) -> None:
    """Have a short-lived client `make` a node at any server, or `remove` it with all that is below it."""
    finished = subprocess.run(
        _command("change-tree-for-tests", hosts, how, path),
        cwd="/",
        env=_environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=ANSWER_SECONDS_MAX,
    )
    if finished.returncode:
        raise ServerError(f"cannot {how} {path} at {hosts}: {finished.stderr.strip()}")


class Child:
    """One run of a server."""

    def __init__(self, config: Path, log: Path) -> None:
        self._log = log
        with log.open("ab") as log_file:
            self._process = subprocess.Popen(
                _command("serve-for-tests", str(config)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                cwd=config.parent,
                env=_environ(),
                process_group=0,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        self._lock = threading.Lock()
        self._continuer: subprocess.Popen[bytes] | None = None  # while paused
        forks.owners.add(self)

    def descriptors(self) -> Iterator[int]:
        """What is open; see forks.py."""
        files = [self._requests, self._answers, self._continuer.stdin if self._continuer else None]
        return (file.fileno() for file in files if file is not None and not file.closed)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_ready(self, seconds: float = ANSWER_SECONDS_MAX) -> int:
        """Wait until the server listens; returns its client port."""
        with self._lock:
            ready = self._read("start", seconds)
        return int(ready["port"])

    def ask(self, what: str, **arguments: object) -> Any:
        """Have the server do something, and return what it says."""
        request = json.dumps({"do": what, **arguments}).encode() + b"\n"
        if self.is_paused:
            raise ServerError(f"cannot {what}: the server is paused; resume it first")
        with self._lock:
            try:
                self._requests.write(request)
                self._requests.flush()
            except (OSError, ValueError):  # its end of the pipe is closed, or ours is
                raise self.failure(f"cannot {what}: the server is not running") from None
            answer = self._read(what, ANSWER_SECONDS_MAX)
        if "error" in answer:
            raise ServerError(f"cannot {what}: {answer['error']}")
        return answer["ok"]

    def _read(self, what: str, seconds: float) -> dict[str, Any]:
        """The next line it says; one that says nothing for so long is killed."""
        has_waited = threading.Event()

        def give_up() -> None:
            has_waited.set()
            self._process.kill()

        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            line = self._answers.readline()
        except ValueError:  # another thread has ended it meanwhile
            line = b""
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            code = self._process.wait(STOP_SECONDS_MAX)
            if has_waited.is_set():
                raise self.failure(f"the server did not {what} within {seconds:g} s and was killed")
            raise self.failure(f"cannot {what}: the server ended with code {code}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def failure(self, how: str) -> ServerError:
        text = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        return ServerError(f"{how}. The end of {self._log}:\n{log_tail(text)}")

    @property
    def is_paused(self) -> bool:
        return self._continuer is not None

    def pause(self) -> None:
        if self._continuer is None:
            continuer = ["/bin/sh", "-c", 'read _; kill -CONT "$0"', str(self.pid)]
            self._continuer = subprocess.Popen(continuer, stdin=subprocess.PIPE, cwd="/", process_group=0)
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        continuer, self._continuer = self._continuer, None
        if continuer is not None:
            continuer.communicate()

    def stop(self) -> int:
        """End it in good order."""
        self._close_requests()
        try:
            return self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.failure(
                f"the server did not stop within {STOP_SECONDS_MAX} s and was killed"
            ) from None
        finally:
            self._answers.close()

    def kill(self) -> None:
        """End it at once, as a power failure of this process alone."""
        self._process.kill()
        self.resume()
        self._process.wait()
        self._close_requests()
        self._answers.close()

    def _close_requests(self) -> None:
        with contextlib.suppress(OSError):  # it died before it read all of them
            self._requests.close()


def log_tail(log: str) -> str:
    return "\n".join(f"    {line}" for line in log.splitlines()[-LOG_TAIL_LINES:]) or "    (empty)"
