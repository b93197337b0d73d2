"""Record the transcripts in zkcli/ from Apache's zkCli: python compat-tests/record_zkcli.py [NAME...]"""

import sys
from pathlib import Path

from zkcli_processes import start_process
from zkcli_transcripts import transcribe, transcripts
from zkcli_worlds import FOLDER, World, start_world


def main(wanted: list[str]) -> None:
    for kind in ("standalone", "ensemble"):
        files = [file for file in transcripts(FOLDER / kind) if not wanted or file.stem in wanted]
        if files:
            with start_world(kind) as world:
                for file in files:
                    record(file, world)


def record(file: Path, world: World) -> None:
    file.write_text(transcribe(file.read_text(), world.names, start_process("reference")))
    world.reset()
    print(file.relative_to(FOLDER))


if __name__ == "__main__":
    main(sys.argv[1:])
