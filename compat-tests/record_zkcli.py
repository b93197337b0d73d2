"""Record the transcripts in zkcli/ from Apache's zkCli: python compat-tests/record_zkcli.py [NAME...]"""

import sys

from zkcli_processes import start_process
from zkcli_transcripts import transcribe
from zkcli_worlds import FOLDER, TRANSCRIPTS, worlds_of


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
