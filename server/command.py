"""Where the command `triokeeper` begins: hands its arguments to whoever runs them.

Commands that probes run every few seconds, or that containers begin with, go straight to their function.
Everything else goes through `server.cli`, whose library takes longer to import than such a command takes.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

# The module and function behind each of these commands: it gets the arguments and answers the exit code.
QUICK_COMMANDS = {
    "cli": ("client.shell.command", "main"),
    "entrypoint": ("server.container.entrypoint", "main"),
    "scripts": ("server.tools.scripts", "main"),
    "status": ("client.status.command", "main"),
    "zkcli": ("client.zkcli.main", "main"),
}


def main() -> None:
    """Run the command line that this process was started with."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name == "entrypoint":  # PID 1 is deaf until it says otherwise, and the rest takes long to import
        from server.container.process_one import end_on_signals

        end_on_signals()
    if name in QUICK_COMMANDS:
        module, function = QUICK_COMMANDS[name]
        run: Callable[[Sequence[str]], int] = getattr(import_module(module), function)
        sys.exit(run(sys.argv[2:]))
    from server.cli import main as run_command_line

    run_command_line()
