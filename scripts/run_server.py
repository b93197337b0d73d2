"""`make run`: the server with its hot modules compiled, where there is a C compiler, and else as it is.

The compiled one is built when it is first needed, and again when a source has changed.
"""

import os
import sys
from functools import partial
from typing import NoReturn

from scripts.compile_hot_modules import CompilationFailed, CompilerUnavailable, compile_hot_modules


def main() -> NoReturn:
    """Become `triokeeper start` with the arguments of this process."""
    environ = dict(os.environ)
    try:
        compiled = compile_hot_modules(say=partial(print, file=sys.stderr, flush=True))
    except (CompilerUnavailable, OSError) as unavailable:
        warn(reason=str(unavailable))
    except CompilationFailed as failure:
        *_, last = str(failure).strip().splitlines()
        warn(reason=f"{last}; make compile shows all of it")
    else:
        before = filter(None, [environ.get("PYTHONPATH")])
        environ["PYTHONPATH"] = os.pathsep.join([str(compiled), *before])
    # -P: what is compiled comes before the checkout, in which this may run
    os.execve(sys.executable, [sys.executable, "-P", "-m", "triokeeper", "start", *sys.argv[1:]], environ)


def warn(reason: str) -> None:
    """Say in the log that the server is the slower one, and why."""
    from eventlog import log
    from server.logging_setup import choose_format, choose_level, configure_logging

    form = choose_format(os.environ, is_terminal=sys.stdout.isatty())
    configure_logging(form, choose_level(os.environ, {}))
    log.warning(
        "This server runs as pure Python, which takes two to three times the CPU time for a write",
        reason=reason,
        remedy="make run again with a C compiler and the headers of Python",
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
