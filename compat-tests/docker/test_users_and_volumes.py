"""Users, owners and volumes: rows 21 and 22 of the checklist."""

import os
from pathlib import Path

import pytest

from support.docker_containers import Box, Lab

pytestmark = [pytest.mark.long, pytest.mark.timeout(600, func_only=True)]

VOLUMES = ("/data", "/datalog", "/logs")


def server_uid(box: Box) -> int:
    return int(box.run("stat", "-c", "%u", "/proc/1", user="root").stdout)


def bind(folder: Path, uid: int, gid: int) -> dict[str, dict[str, str]]:
    """Folders of this machine with such an owner, in the places of the volumes."""
    folders = {}
    for place in VOLUMES:
        path = folder / place.lstrip("/")
        path.mkdir()
        folders[str(path)] = {"bind": place}
        os.chown(path, uid, gid)
        path.chmod(0o775)
    return folders


def test_row_22_root_owned_volumes_are_handed_over(lab: Lab, tmp_path: Path) -> None:
    box = lab.run(volumes=bind(tmp_path, 0, 0))

    assert server_uid(box) == 1000
    assert {(tmp_path / place.lstrip("/")).stat().st_uid for place in VOLUMES} == {1000}
    assert (tmp_path / "data" / "version-2").stat().st_uid == 1000


def test_row_22_named_volumes(lab: Lab) -> None:
    box = lab.run(volumes={lab.volume(): {"bind": place} for place in VOLUMES})

    assert server_uid(box) == 1000
    assert box.run("stat", "-c", "%U", *VOLUMES).stdout.split() == ["zookeeper"] * 3


@pytest.mark.parametrize("user", ["1000", "zookeeper", "1000:1000"])
def test_row_21_a_chosen_user_with_volumes_of_its_own(lab: Lab, tmp_path: Path, user: str) -> None:
    box = lab.run(user=user, volumes=bind(tmp_path, 1000, 1000))

    assert server_uid(box) == 1000
    assert box.mode == "standalone"


def test_a_random_user_of_group_0(lab: Lab) -> None:
    """As some platforms choose them: no entry in passwd, group 0, no capabilities, no new privileges."""
    box = lab.run(user="1234567:0", cap_drop=["ALL"], security_opt=["no-new-privileges"])

    assert server_uid(box) == 1234567
    assert box.run("triokeeper-healthcheck").code == 0
    assert box.run("zkCli.sh", "create", "/made", "by whom").stderr.endswith("Created /made\n")


def test_a_foreign_owned_volume_gets_one_line_with_the_remedy(lab: Lab, tmp_path: Path) -> None:
    folders = bind(tmp_path, 4321, 4321)
    (tmp_path / "data").chmod(0o755)

    ended = lab.run_to_end(user="1000", volumes=folders)

    assert ended.code == 3
    (line,) = [line for line in ended.stderr.splitlines() if "/data" in line]
    assert "4321" in line
    assert "1000" in line


def test_a_foreign_owned_volume_that_can_be_written_is_no_obstacle(lab: Lab, tmp_path: Path) -> None:
    folders = bind(tmp_path, 4321, 0)

    box = lab.run(user="1000:0", volumes=folders)

    assert box.mode == "standalone"
    assert (tmp_path / "data").stat().st_uid == 4321
