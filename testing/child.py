"""The server's process, and the conversation with it: JSON lines over its standard input and output.

The process ends when its standard input does, so it never outlives the one that started it. While it is
paused it cannot notice that; a shell that waits for the same end continues it then. It has a process group
of its own: Ctrl-C is for the tests alone.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

from .errors import ServerError

ANSWER_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 15.0
LOG_TAIL_LINES = 30
# They configure servers, or name whoever started the tests, and are not meant for ours.
_NOT_FOR_US = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "JVMFLAGS", "SERVER_JVMFLAGS", "KAFKA_OPTS"),
    *("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"),
)
_COMMAND = (sys.executable, "-P", "-m", "triokeeper")


def _environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_US}
    return kept | {"TRIOKEEPER_LOG": "plain"}


def change_tree(hosts: str, how: str, path: str) -> None:
    """Have a short-lived client `make` a node at any server, or `remove` it with all that is below it."""
    finished = subprocess.run(
        [*_COMMAND, "change-tree-for-tests", hosts, how, path],
        env=_environ(),
        capture_output=True,
        text=True,
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
                [*_COMMAND, "serve-for-tests", str(config)],
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

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_ready(self, seconds: float = ANSWER_SECONDS_MAX) -> int:
        """Wait until the server listens; returns its client port."""
        with self._lock:
            ready = self._read(seconds)
        return int(ready["port"])

    def ask(self, what: str, **arguments: object) -> Any:
        """Have the server do something, and return what it says."""
        with self._lock:
            try:
                self._requests.write(json.dumps({"do": what, **arguments}).encode() + b"\n")
                self._requests.flush()
            except OSError:
                raise self.failure(f"cannot {what}: the server is not running") from None
            answer = self._read(ANSWER_SECONDS_MAX)
        if "error" in answer:
            raise ServerError(str(answer["error"]))
        return answer["ok"]

    def _read(self, seconds: float) -> dict[str, Any]:
        """The next line it says; one that says nothing for so long is killed."""
        timer = threading.Timer(seconds, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            line = self._answers.readline()
        finally:
            timer.cancel()
        if not line:
            code = self._process.wait(STOP_SECONDS_MAX)
            raise self.failure(f"the server ended with code {code}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def failure(self, how: str) -> ServerError:
        return ServerError(f"{how}. The end of {self._log}:\n{log_tail(self._log)}")

    @property
    def is_paused(self) -> bool:
        return self._continuer is not None

    def pause(self) -> None:
        if self._continuer is None:
            continuer = ["sh", "-c", 'read _; kill -CONT "$0"', str(self.pid)]
            self._continuer = subprocess.Popen(continuer, stdin=subprocess.PIPE, process_group=0)
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        continuer, self._continuer = self._continuer, None
        if continuer is not None:
            continuer.communicate()

    def stop(self) -> int:
        """End it in good order."""
        self._requests.close()
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
        self._requests.close()
        self._answers.close()


def log_tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(f"    {line}" for line in lines[-LOG_TAIL_LINES:]) or "    (empty)"
