"""Where the command `triokeeper` begins: hands its arguments to whoever runs them.

Commands that probes run every few seconds, or that containers begin with, go straight to their function, and
so does the start of a server that is given no options. Everything else goes through `server.cli`, whose
library takes longer to import than such a command takes.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

PROGRAM = "triokeeper"
COMPLETION_VARIABLE = "_TRIOKEEPER_COMPLETE"  # set while a shell asks how its line goes on
# The module and function behind each of these commands: it gets the arguments and answers the exit code.
QUICK_COMMANDS = {
    "change-tree-for-tests": ("server.commands_for_tests", "change_tree_for_tests"),
    "cli": ("client.shell.command", "main"),
    "entrypoint": ("server.container.entrypoint", "main"),
    "scripts": ("server.tools.scripts", "main"),
    "serve-for-tests": ("server.commands_for_tests", "serve_for_tests"),
    "status": ("client.status.command", "main"),
    "zkcli": ("client.zkcli.main", "main"),
}


def main() -> None:
    """Run the command line that this process was started with."""
    name, *arguments = sys.argv[1:] or ["start"]
    if name == "entrypoint":  # PID 1 is deaf until it says otherwise, and the rest takes long to import
        from server.container.process_one import end_on_signals

        end_on_signals()
    if COMPLETION_VARIABLE in os.environ:
        _run_command_line()
    elif name in QUICK_COMMANDS:
        module, function = QUICK_COMMANDS[name]
        run: Callable[[Sequence[str]], int] = getattr(import_module(module), function)
        sys.exit(run(arguments))
    elif name == "start" and not any(argument.startswith("-") for argument in arguments):
        from server.starting import start_server

        sys.exit(start_server(tuple(arguments)))
    else:
        _run_command_line()


def _run_command_line() -> None:
    from server.cli import main as run_command_line

    run_command_line(prog_name=PROGRAM)
