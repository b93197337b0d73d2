"""A zoo.cfg in a directory of its own, for tests that load it."""

from collections.abc import Mapping
from pathlib import Path

from server.config import LoadedConfig, ServerConfig
from server.config_loading import load_config


def write_zoo_cfg(directory: Path, text: str, *, my_id: str | None = None) -> Path:
    """Write zoo.cfg, where DIR stands for the directory, beside the dataDir `DIR/data`."""
    data = directory / "data"
    data.mkdir(exist_ok=True)
    if my_id is not None:
        (data / "myid").write_text(my_id)
    file = directory / "zoo.cfg"
    file.write_bytes(text.replace("DIR", str(directory)).encode("latin-1"))
    return file


def load_text(directory: Path, text: str, environ: Mapping[str, str] | None = None) -> LoadedConfig:
    """Load settings added to the least that a server needs in order to start without a warning."""
    least = "dataDir=DIR/data\nclientPort=2181\nautopurge.purgeInterval=1"
    file = write_zoo_cfg(directory, f"{least}\n{text}\n")
    return load_config(file, environ or {})


def config_from(directory: Path, text: str, environ: Mapping[str, str] | None = None) -> ServerConfig:
    return load_text(directory, text, environ).config


def messages(loaded: LoadedConfig, level: str) -> list[str]:
    return [note.message for note in loaded.notes if note.level == level]
