"""`python bench/run.py --help`: the script behind `make bench`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.command_line import main  # noqa: E402  (found only from the checkout's root)

if __name__ == "__main__":
    main()
