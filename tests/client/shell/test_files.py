"""Files that commands write."""

import os
import threading
from pathlib import Path

import pytest

from client.shell.files import write_bytes


def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    secret, link = tmp_path / "secret", tmp_path / "link"
    write_bytes(str(secret), b"old")
    secret.chmod(0o600)
    link.symlink_to(secret)
    write_bytes(str(link), b"new")
    assert link.is_symlink()
    assert secret.read_bytes() == b"new"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["link", "secret"]


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    """Else root would lose /dev/null by exporting to it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_bytes(str(pipe), b"data")
    reader.join(30)
    assert heard == [b"data"]
    assert pipe.is_fifo()


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_bytes(str(tmp_path), b"data")
    assert os.listdir(tmp_path.parent).count(f".{tmp_path.name}.writing") == 0
