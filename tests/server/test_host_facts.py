"""What the machine says about this process."""

import re
from pathlib import Path

from server.host_facts import RealHost

KEYS_OF_THE_ORIGINAL = (
    "zookeeper.version host.name java.version java.vendor java.home java.class.path java.library.path"
    " java.io.tmpdir java.compiler os.name os.arch os.version user.name user.home user.dir"
    " os.memory.free os.memory.max os.memory.total"
)


def test_the_environment_has_all_keys_of_the_original_in_order_and_one_of_ours() -> None:
    environment = RealHost().environment()
    assert list(environment) == [*KEYS_OF_THE_ORIGINAL.split(), "triokeeper.version"]
    assert all(value and "\n" not in value for value in environment.values())


def test_memory_is_shown_in_whole_megabytes() -> None:
    environment = RealHost().environment()
    free, largest, total = (environment[f"os.memory.{what}"] for what in ("free", "max", "total"))
    assert all(re.fullmatch(r"\d+MB", each) for each in (free, largest, total))
    assert 0 < int(total[:-2]) <= int(largest[:-2])


def test_an_opened_file_is_counted() -> None:
    host = RealHost()
    before = host.open_files()
    with Path(__file__).open():
        assert host.open_files() == before + 1
    assert before < host.open_files_max()


def test_a_directory_is_as_large_as_the_files_at_and_below_it(tmp_path: Path) -> None:
    (tmp_path / "snapshot.0").write_bytes(bytes(478))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "log.1").write_bytes(bytes(22))
    assert RealHost().directory_bytes(tmp_path) == 500
    assert RealHost().directory_bytes(tmp_path / "missing") == 0
