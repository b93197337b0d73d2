"""What the installed command runs; the wheel carries this file as `triokeeper/__init__.py`.

The wheel holds client, eventlog, jute, persistence, quorum and server inside its own folder, so that a
project with packages of these names keeps them. Only the server's own process puts that folder first on its
path, and there ours come first even when PYTHONPATH points at such a project. `triokeeper.testing` is
imported by other people's processes, and leaves their path alone.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))

if not os.path.isdir(os.path.join(_HERE, "testing")):
    # An editable install: this file alone was copied, and a .pth file beside it names the checkout.
    with open(os.path.join(os.path.dirname(_HERE), "_triokeeper.pth"), encoding="utf-8") as _pth:
        sys.modules[__name__].__path__.append(_pth.read().strip())


def main() -> None:
    """Run the `triokeeper` command."""
    sys.path.insert(0, _HERE)
    from server.command import main as run_command_line

    run_command_line()
