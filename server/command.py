"""Where the command `triokeeper` begins: hands its arguments to whoever runs them.

Commands that probes run every few seconds go straight to their function. Everything else goes through
`server.cli`, whose library takes longer to import than such a command takes.
"""

import sys


def main() -> None:
    """Run the command line that this process was started with."""
    if sys.argv[1:2] == ["scripts"]:
        from server.tools.scripts import main as run_scripts

        sys.exit(run_scripts(sys.argv[2:]))
    if sys.argv[1:2] == ["zkcli"]:
        from client.zkcli.main import main as run_zkcli

        sys.exit(run_zkcli(sys.argv[2:]))
    from server.cli import main as run_command_line

    run_command_line()
