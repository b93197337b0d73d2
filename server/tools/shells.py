"""zkCli.sh and Kafka's zookeeper-shell: both are `triokeeper zkcli`, in this same process."""

import sys
from collections.abc import Mapping, Sequence

SHELL_USAGE = "USAGE: {script} zookeeper_host:port[/path] [args...]"
TLS_OPTION = "-zk-tls-config-file"


def zk_cli(arguments: Sequence[str], _environ: Mapping[str, str]) -> int:
    """zkCli.sh: the arguments are those of the shell."""
    return run_command_line(["zkcli", *arguments])


def zookeeper_shell(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """zookeeper-shell: the first argument is the server, the rest a command."""
    if not arguments:
        print(SHELL_USAGE.format(script=environ["TRIOKEEPER_SCRIPT"]), file=sys.stderr)
        return 1
    if TLS_OPTION in arguments:
        print(f"{TLS_OPTION} is not supported: this shell does not speak TLS", file=sys.stderr)
        return 1
    return run_command_line(["zkcli", "-server", *arguments])


def run_command_line(arguments: list[str]) -> int:
    """`triokeeper` with other arguments."""
    from server.command import main

    sys.argv[1:] = arguments
    main()
    return 0
