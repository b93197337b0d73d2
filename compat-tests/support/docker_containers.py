"""Containers for tests: with names of their own, at random ports of 127.0.0.1, removed in the end.

lab.run(environment={"ZOO_INIT_LIMIT": "10"})         a server that serves
lab.run_to_end("zkCli.sh", "-server", ...)            a command in a container, to its end
"""

import contextlib
import io
import re
import secrets
import socket
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
from docker.client import DockerClient
from docker.errors import APIError, NotFound
from docker.models.containers import Container

HOST = "127.0.0.1"
CLIENT_PORT = 2181
START_SECONDS_MAX = 60.0
PAUSE_ATTEMPTS = 10
POLL_SECONDS = 0.02
Options = Any  # of docker-py's containers.create
_CONTROL = re.compile(r"\x1b\[[?\d;]*[a-zA-Z]")


@attrs.frozen
class Ended:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()


@attrs.define(eq=False)
class Box:
    """One container, running or not."""

    container: Container

    @property
    def name(self) -> str:
        return str(self.container.name)

    @property
    def log(self) -> str:
        return str(self.container.logs().decode())

    @property
    def log_lines(self) -> list[str]:
        return self.log.splitlines()

    def state(self) -> dict[str, Any]:
        self.container.reload()
        return dict(self.container.attrs["State"])

    @property
    def health(self) -> str:
        return str(self.state()["Health"]["Status"])

    @property
    def exit_code(self) -> int:
        return int(self.state()["ExitCode"])

    @property
    def port(self) -> int:
        return self.published(CLIENT_PORT)

    def published(self, port: int) -> int:
        """The port of this machine that leads to a port of the container, once the engine has chosen it."""
        self.container.reload()
        bound = self.container.attrs["NetworkSettings"]["Ports"][f"{port}/tcp"]
        return int(bound[0]["HostPort"])

    @property
    def host_port(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        self.container.start()

    def stop(self) -> float:
        """Stop it as `docker stop` does; how many seconds that took."""
        began = time.monotonic()
        self.container.stop()
        return time.monotonic() - began

    def kill(self) -> None:
        self.container.kill()

    def pause(self) -> None:
        """Stop all its processes at once.

        On a busy machine with cgroup v1 an engine now and then fails to, lets them run on and says so.
        """
        for left in reversed(range(PAUSE_ATTEMPTS)):
            try:
                self.container.pause()
            except APIError as error:
                if not left or "unable to freeze" not in str(error):
                    raise
            else:
                return

    def wait_until_ended(self, seconds: float = START_SECONDS_MAX) -> int:
        return int(self.container.wait(timeout=seconds)["StatusCode"])

    def run(self, *command: str, **options: Options) -> Ended:
        """Run a command inside, as `docker exec` does."""
        code, (stdout, stderr) = self.container.exec_run(list(command), demux=True, **options)
        return Ended(code, (stdout or b"").decode(), (stderr or b"").decode())

    def shell(self, script: str, **options: Options) -> Ended:
        return self.run("bash", "-c", script, **options)

    def read(self, path: str) -> str:
        """A file's content, also when the container does not run."""
        chunks, _ = self.container.get_archive(path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            member = archive.extractfile(archive.getmembers()[0])
            assert member is not None, path
            return member.read().decode()

    @contextlib.contextmanager
    def terminal(self) -> Iterator["Terminal"]:
        """What a person at `docker run -it` has; for a container made with `tty` and `stdin_open`."""
        attached = self.container.attach_socket(params={"stdin": 1, "stdout": 1, "stream": 1})
        try:
            yield Terminal(attached._sock)
        finally:
            attached._sock.close()
            attached.close()

    def word(self, word: str, seconds: float = 5, port: int = CLIENT_PORT) -> str:
        with socket.create_connection((HOST, self.published(port)), timeout=seconds) as probe:
            probe.sendall(word.encode())
            return b"".join(iter(lambda: probe.recv(65536), b"")).decode()

    @property
    def mode(self) -> str | None:
        """What `srvr` says after Mode; None if it does not serve."""
        try:
            lines = self.word("srvr", 1).splitlines()
        except (OSError, KeyError, TypeError, IndexError):
            return None
        return next((line.removeprefix("Mode: ") for line in lines if line.startswith("Mode: ")), None)

    def wait_until_serving(self, seconds: float = START_SECONDS_MAX) -> None:
        wait_for(lambda: self.mode is not None or self.state()["Status"] == "exited", self, seconds)
        assert self.state()["Status"] == "running", f"{self.name} ended:\n{self.log}"

    def wait_for_line(self, text: str, seconds: float = START_SECONDS_MAX) -> str:
        """A line of its log that contains the text."""
        wait_for(lambda: text in self.log, self, seconds)
        return next(line for line in self.log_lines if text in line)


@attrs.define(eq=False)
class Terminal:
    """The keyboard and screen of a container."""

    _socket: socket.socket
    _received: str = ""

    def type(self, line: str) -> None:
        self._socket.sendall(line.encode() + b"\n")

    def wait_for(self, text: str, seconds: float = START_SECONDS_MAX) -> None:
        """Read until the text is on the screen; the next wait begins behind it."""
        self._socket.settimeout(seconds)
        while text not in (shown := _CONTROL.sub("", self._received)):
            received = self._socket.recv(65536)
            assert received, f"the terminal closed before {text!r} was shown: {shown!r}"
            self._received += received.decode(errors="replace")
        self._received = shown.partition(text)[2]


def wait_for(
    condition: Callable[[], object], box: Box | None = None, seconds: float = START_SECONDS_MAX
) -> None:
    """Wait until the condition holds; fail with the end of the box's log if it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            log = "" if box is None else f":\n{box.log[-4000:]}"
            raise AssertionError(f"{condition} does not hold after {seconds} s{log}")
        time.sleep(POLL_SECONDS)


@attrs.define(eq=False)
class Lab:
    """Makes containers, networks and volumes, and removes them again."""

    client: DockerClient
    image: str
    _remains: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack)
    _prefix: str = attrs.field(factory=lambda: f"triokeeper-test-{secrets.token_hex(4)}")
    _made: int = 0

    def create(self, *command: str, image: str | None = None, **options: Options) -> Box:
        """A container that was not started. `aliases` are its names in the network."""
        options.setdefault("ports", {f"{CLIENT_PORT}/tcp": (HOST, None)})
        aliases = options.pop("aliases", ())
        if "network" in options and aliases:
            endpoint = self.client.api.create_endpoint_config(aliases=list(aliases))
            options["networking_config"] = {options["network"]: endpoint}
        container = self.client.containers.create(
            image or self.image, list(command) or None, name=self._name(), **options
        )
        self._remains.callback(remove, container)
        return Box(container)

    def run(self, *command: str, **options: Options) -> Box:
        """A container whose server serves."""
        box = self.start(*command, **options)
        box.wait_until_serving()
        return box

    def start(self, *command: str, **options: Options) -> Box:
        box = self.create(*command, **options)
        box.start()
        return box

    def run_to_end(self, *command: str, **options: Options) -> Ended:
        """Run a command in a container of its own."""
        box = self.create(*command, ports={}, **options)
        box.start()
        code = box.wait_until_ended(120)
        stdout, stderr = (box.container.logs(stdout=out, stderr=not out).decode() for out in (True, False))
        return Ended(code, stdout, stderr)

    def network(self) -> str:
        network = self.client.networks.create(self._name())
        self._remains.callback(network.remove)
        return str(network.name)

    def volume(self) -> str:
        volume = self.client.volumes.create(self._name())
        self._remains.callback(volume.remove, force=True)
        return str(volume.name)

    def _name(self) -> str:
        self._made += 1
        return f"{self._prefix}-{self._made}"

    def close(self) -> None:
        self._remains.close()


def remove(container: Container) -> None:
    with contextlib.suppress(NotFound):  # a test may have done it
        container.remove(force=True, v=True)


@contextlib.contextmanager
def open_lab(client: DockerClient, image: str) -> Iterator[Lab]:
    lab = Lab(client, image)
    try:
        yield lab
    finally:
        lab.close()


def server_lines(names: Mapping[int, str]) -> str:
    """What ZOO_SERVERS says for servers of these names."""
    return " ".join(f"server.{number}={name}:2888:3888;2181" for number, name in names.items())
