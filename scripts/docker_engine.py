"""A Docker engine to build and test with: the one that answers, or else one of our own.

    python -m scripts.docker_engine start    bring one up unless one answers, and leave it running
    python -m scripts.docker_engine stop     end the one started here, if it runs

Where none answers, root on Debian gets one: the packages are installed, and dockerd runs with its images and
containers in build/docker-engine, at the usual socket. Others are told what to do. Only an engine that was
started here is ever stopped, and every wait has an end.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker.client import DockerClient
from docker.errors import DockerException

HOME = Path(__file__).resolve().parent.parent / "build" / "docker-engine"
PID_FILE, LOG_FILE, DATA_ROOT = HOME / "dockerd.pid", HOME / "dockerd.log", HOME / "data"
PACKAGES = ("docker.io", "debootstrap", "docker-compose")

INSTALL_SECONDS_MAX = 600
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 60
POLL_SECONDS = 0.1
CALL_SECONDS_MAX = 900  # a build is one call


class EngineUnavailable(Exception):
    """No engine answers and none can be started; the message says why and what to do."""


_left_running: list[subprocess.Popen[bytes]] = []  # an engine may outlive us; its handle must not be missed


@contextmanager
def engine() -> Iterator[DockerClient]:
    """A client of an engine, which is stopped in the end if it was started for this."""
    started = ensure_engine()
    try:
        client = DockerClient.from_env(timeout=CALL_SECONDS_MAX)
        try:
            yield client
        finally:
            client.close()
    finally:
        if started:
            stop_engine()


def ensure_engine() -> bool:
    """Bring up an engine unless one answers; whether one was started. Raises EngineUnavailable."""
    if answers():
        return False
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise EngineUnavailable(
            "no Docker engine answers: start Docker, or set DOCKER_HOST to an engine that runs elsewhere "
            "(root on Debian gets an engine of its own)"
        )
    if shutil.which("dockerd") is None:
        install_packages(*PACKAGES)
    start_engine()
    return True


def answers() -> bool:
    try:
        client = DockerClient.from_env(timeout=10)
    except DockerException:
        return False
    try:
        return bool(client.ping())
    except (DockerException, OSError):
        return False
    finally:
        client.close()


def install_packages(*names: str) -> None:
    """Install what is missing, without questions."""
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *names]):
        done = subprocess.run(
            ["apt-get", "-q", *arguments],
            env=quiet,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INSTALL_SECONDS_MAX,
            text=True,
        )
        if done.returncode:
            raise EngineUnavailable(f"apt-get {' '.join(arguments)} failed:\n{done.stdout[-2000:]}")


def start_engine() -> None:
    """Start dockerd in a session of its own and wait until it answers."""
    if shutil.which("dockerd") is None:
        raise EngineUnavailable("dockerd is not on the PATH: install Docker's engine")
    HOME.mkdir(parents=True, exist_ok=True)
    with LOG_FILE.open("ab") as log:
        process = subprocess.Popen(
            ["dockerd", "--data-root", DATA_ROOT, "--pidfile", PID_FILE],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS_MAX
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            raise EngineUnavailable(f"dockerd did not come up; the end of {LOG_FILE}:\n{_log_tail()}")
        time.sleep(POLL_SECONDS)
    _left_running.append(process)


def _log_tail() -> str:
    return LOG_FILE.read_text(errors="replace")[-2000:]


def stop_engine() -> bool:
    """Stop the engine that was started here; whether there was one."""
    pid = started_here()
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while started_here() is not None:
        if time.monotonic() > deadline:
            raise EngineUnavailable(f"dockerd (pid {pid}) did not stop within {STOP_SECONDS_MAX} s")
        time.sleep(POLL_SECONDS)
    return True


def started_here() -> int | None:
    """The pid of the engine with our data root, if it runs; a pid file alone may be an old one's."""
    try:
        pid = int(PID_FILE.read_text())
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return None
    return pid if str(DATA_ROOT).encode() in command_line and state != "Z" else None


def main(command: str) -> None:
    if command == "start":
        print("started; stop it with: make docker-engine-stop" if ensure_engine() else "an engine answers")
    elif command == "stop":
        print("stopped" if stop_engine() else "no engine of ours runs")
    else:
        raise EngineUnavailable(f"{command}: give start or stop")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) == 2 else "(nothing)")
    except EngineUnavailable as problem:
        sys.exit(str(problem))
