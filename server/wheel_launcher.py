"""What the installed command runs; the wheel carries this file as `triokeeper/__init__.py`.

The wheel holds jute, persistence, quorum and server inside its own folder, so that a project with packages of
these names keeps them. Only the server's own process puts that folder first on its path, and there ours come
first even when PYTHONPATH points at such a project.
"""

import os
import sys


def main() -> None:
    """Run the `triokeeper` command."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from server.command import main as run_command_line

    run_command_line()
