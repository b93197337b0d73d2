"""Record the transcripts from Apache's zkCli.

PYTHONPATH=compat-tests python -m tools.zkcli.record [NAME...]
"""

import sys

from tools.zkcli.processes import start_process
from tools.zkcli.transcripts import transcribe
from tools.zkcli.worlds import FOLDER, TRANSCRIPTS, worlds_of


def main(wanted: list[str]) -> None:
    with worlds_of("triokeeper") as worlds:
        for file in TRANSCRIPTS:
            if not wanted or file.stem in wanted:
                world = worlds.of(file)
                file.write_text(transcribe(file.read_text(), world.names, start_process("reference")))
                world.reset()
                print(file.relative_to(FOLDER))


if __name__ == "__main__":
    main(sys.argv[1:])
