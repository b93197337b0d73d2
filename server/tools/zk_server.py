"""zkServer.sh: starts and stops a server, and asks for its mode.

What always holds: the lines on standard output and the exit codes are those of ZooKeeper's script; the server
itself is `triokeeper start`, whose process carries the path of its zoo.cfg on its command line; only the
commands that start a server write anything to disk.

Better than the original: `stop` waits until the process has ended, so `restart` needs no pause in between.
A pid file may outlive its server, and the pid be another program's by then, as is usual where a container
starts anew on the same volume: such a program is neither a server that runs already nor one to be stopped.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from server.tools.client_port import Endpoint, find_client_port
from server.tools.zoo_cfg_lines import read_lines

COMMANDS = "start|start-foreground|stop|version|restart|status|print-cmd"
PID_MAX = 1 << 22  # the highest that Linux gives
START_SECONDS = 1.0  # a server that is still there after this has started
STOP_SECONDS_MAX = 30.0
STOP_POLL_SECONDS = 0.02
NO_TLS = """\
Note: the only client port is secureClientPort ({port}), and this command does not speak TLS. Ask the
  server with a TLS client, or give it a plain clientPort on a loopback address as well."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run one command of zkServer.sh; `environ` is what zkEnv.sh has made of the environment."""
    command, *others = arguments or [""]
    announce(environ)
    config_file = choose_config(environ, others[0] if others else "")
    print(f"Using config: {config_file}", file=sys.stderr, flush=True)
    installation = Installation(config_file, environ)
    if problem := installation.missing_directory():
        print(problem)
        return 1
    if command == "restart":
        return main(["stop", *others], environ) or main(["start", *others], environ)
    run = {
        "start": start,
        "start-foreground": start_foreground,
        "stop": stop,
        "version": version,
        "status": status,
        "print-cmd": print_command,
    }.get(command)
    if run is None:
        script = environ.get("TRIOKEEPER_SCRIPT", "zkServer.sh")
        print(f"Usage: {script} [--config <conf-dir>] {{{COMMANDS}}}", file=sys.stderr)
        return 0
    return run(installation)


def announce(environ: Mapping[str, str]) -> None:
    """The lines about JMX. There is none here, but scripts and people know the lines."""
    if environ.get("JMXDISABLE", "") not in ("", "false"):
        print("JMX disabled by user request", file=sys.stderr)
        return
    print("ZooKeeper JMX enabled by default", file=sys.stderr)
    if port := environ.get("JMXPORT"):
        settings = [
            ("Port", port),
            ("authenticate", environ.get("JMXAUTH") or "false"),
            ("ssl", environ.get("JMXSSL") or "false"),
            ("log4j", environ.get("JMXLOG4J") or "true"),
            ("Hostname", environ.get("JMXHOSTNAME", "")),
        ]
        for name, value in settings:
            if value:
                print(f"ZooKeeper remote JMX {name} set to {value}", file=sys.stderr)


def choose_config(environ: Mapping[str, str], name: str) -> str:
    """The configuration file: a bare name is looked for in the conf directory, a path is taken as it is."""
    if not name:
        return environ["ZOOCFG"]
    return name if "/" in name else f"{environ['ZOOCFGDIR']}/{name}"


class Installation:
    """One server's configuration file, and what follows from it and the environment."""

    def __init__(self, config_file: str, environ: Mapping[str, str]) -> None:
        self.config_file = config_file
        self.environ = environ
        self.config = read_config(config_file)
        self.data_dir = self.config.get("dataDir", "")
        self.pid_file = environ.get("ZOOPIDFILE") or f"{self.data_dir}/zookeeper_server.pid"
        self.log_dir = environ["ZOO_LOG_DIR"]
        host = environ.get("HOSTNAME") or os.uname().nodename
        self.out_file = f"{self.log_dir}/zookeeper-{environ.get('USER', '')}-server-{host}.out"
        self.command = [environ["TRIOKEEPER"], "start", config_file]

    def missing_directory(self) -> str | None:
        """What is wrong with the data directories, if they are not to be made at need."""
        if not self.environ.get("ZOO_DATADIR_AUTOCREATE_DISABLE"):
            return None
        log_dir = self.config.get("dataLogDir", "")
        for kind, directory in (("data", self.data_dir), ("txnlog", log_dir)):
            if (directory or kind == "data") and not os.path.isdir(f"{directory}/version-2"):
                return f"ZooKeeper {kind} directory is missing at {directory} fix the path or run initialize"
        return None

    def my_id(self) -> str:
        return read_text(f"{self.data_dir}/myid").strip()

    def pid(self) -> int | None:
        """The process that the pid file names, or None if it names none."""
        text = read_text(self.pid_file).strip()
        pid = int(text) if text.isascii() and text.isdigit() else 0
        return pid if 0 < pid <= PID_MAX else None


def read_config(file: str) -> Mapping[str, str]:
    """The keys of a configuration file, none if it cannot be read, which is said on standard error."""
    try:
        with open(file, encoding="latin-1") as lines:
            return read_lines(lines.read())
    except OSError as problem:
        print(f"{file}: {problem.strerror}", file=sys.stderr)
        return {}


def read_text(file: str) -> str:
    try:
        with open(file, encoding="latin-1") as text:
            return text.read()
    except OSError:
        return ""


# -- starting


def start(installation: Installation) -> int:
    """Start a server in the background; it has started if it is still there a second later."""
    print("Starting zookeeper ... ", end="", flush=True)
    pid = installation.pid()
    if pid is not None and is_running(pid) and is_a_server(pid, installation.config_file):
        print(f"already running as process {pid}.")
        return 1
    if not installation.data_dir and not installation.environ.get("ZOOPIDFILE"):
        print("SERVER DID NOT START")
        print(f"{installation.config_file} sets no dataDir; add a line dataDir=DIRECTORY", file=sys.stderr)
        return 1
    return start_and_watch(installation)


def start_and_watch(installation: Installation) -> int:
    import subprocess

    from server.tools.server_process import leave_running, start_in_background

    try:
        process = start_in_background(installation.command, installation.environ, installation.out_file)
    except OSError as problem:
        print("SERVER DID NOT START")
        print(f"{problem.filename}: {problem.strerror}", file=sys.stderr)
        return 1
    if not write_pid(installation.pid_file, process.pid):
        process.terminate()
        process.wait()
        return 1
    try:
        process.wait(START_SECONDS)
    except subprocess.TimeoutExpired:
        print("STARTED")
        leave_running(process)
        return 0
    print("FAILED TO START")
    return 1


def write_pid(file: str, pid: int) -> bool:
    """Write the pid without a newline, as programs that read the file expect it."""
    try:
        os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
        with open(file, "w") as pid_file:
            pid_file.write(str(pid))
    except OSError as problem:
        print("FAILED TO WRITE PID")
        print(f"{problem.filename}: {problem.strerror}; name another with ZOOPIDFILE", file=sys.stderr)
        return False
    return True


def start_foreground(installation: Installation) -> int:
    """Become the server; with ZOO_NOEXEC run it as a child, and hand on signals and the exit code."""
    from server.tools.server_process import become, run_and_wait

    run = run_and_wait if installation.environ.get("ZOO_NOEXEC") else become
    return run(installation.command, installation.environ)


def print_command(installation: Installation) -> int:
    program, *arguments = (f'"{word}"' if "/" in word else word for word in installation.command)
    print(f'{program} {" ".join(arguments)} > "{installation.out_file}" 2>&1 < /dev/null')
    return 0


# -- stopping


def stop(installation: Installation) -> int:
    """End the server that the pid file names, gracefully, and wait until it has ended."""
    print("Stopping zookeeper ... ", end="", flush=True)
    if not os.path.isfile(installation.pid_file):
        print(f"no zookeeper to stop (could not find file {installation.pid_file})")
        return 0
    pid = installation.pid()
    try:
        if pid is None:
            print(f"{installation.pid_file} holds no process id", file=sys.stderr)
        elif is_running(pid) and not is_a_server(pid, installation.config_file):
            print(f"process {pid} is another program and goes on", file=sys.stderr)
        elif not end_process(pid):
            print(f"process {pid} has not ended after {STOP_SECONDS_MAX:.0f} s")
            return 1
        os.unlink(installation.pid_file)
    except OSError as problem:
        print("FAILED TO STOP")
        print(f"{problem.filename or f'process {pid}'}: {problem.strerror}", file=sys.stderr)
        return 1
    print("STOPPED")
    return 0


def end_process(pid: int) -> bool:
    """Send SIGTERM and wait. Has the process ended? PermissionError if it is another user's."""
    import signal
    import time

    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError as problem:
        print(f"kill: ({pid}) - {problem.strerror}", file=sys.stderr)
        return True
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(STOP_POLL_SECONDS)
    return not is_running(pid)


def is_running(pid: int) -> bool:
    """Whether there is such a process, other than one that has ended and nobody has asked how."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] != ["Z"]


def is_a_server(pid: int, config_file: str) -> bool:
    """Whether a running process is a server; yes if nobody may know what it is."""
    from server.tools.server_process import command_line, is_server

    words = command_line(pid)
    return not words or is_server(words) or os.fsencode(config_file) in words


# -- asking


def version(_installation: Installation) -> int:
    from jute.zookeeper_version import BUILT, ZOOKEEPER_VERSION

    print(f"Apache ZooKeeper, version {ZOOKEEPER_VERSION} {BUILT}")
    return 0


def status(installation: Installation) -> int:
    """Say where the server listens and what its mode is; 1 if it does not serve."""
    endpoint = find_client_port(installation.config, installation.my_id, read_dynamic, print)
    if endpoint is None:
        return 1
    is_secure = str(endpoint.is_secure).lower()
    print(f"Client port found: {endpoint.port}. Client address: {endpoint.address}. Client SSL: {is_secure}.")
    mode = "" if endpoint.is_secure else ask_mode(endpoint)
    if mode:
        print(mode)
        return 0
    if endpoint.is_secure:
        print(NO_TLS.format(port=endpoint.port))
    print("Error contacting service. It is probably not running.")
    return 1


def read_dynamic(file: str) -> Mapping[str, str]:
    return read_config(file) if file else {}


def ask_mode(endpoint: Endpoint) -> str:
    """The line `Mode: ...` of srvr; nothing if the server does not answer, or not with that."""
    from server.tools.four_letter_word import ask

    try:
        answer = ask(endpoint.address, int(endpoint.port), "srvr")
    except (OSError, ValueError, OverflowError):
        return ""
    return " ".join(line.strip() for line in answer.splitlines() if "Mode" in line)
