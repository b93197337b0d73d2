"""The compose files are sound, in what both versions of Compose read."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "docker" / "compose"
FILES = sorted(FOLDER.glob("*.yml"))


def test_there_is_one_for_each_use() -> None:
    assert [file.stem for file in FILES] == ["kafka", "mixed-ensemble", "one-server", "three-servers"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_services_are_complete(file: Path) -> None:
    """Every port is this machine's own, every volume is declared, and data outlives the container."""
    content = yaml.safe_load(file.read_text())
    declared = set(content["volumes"])
    for name, service in content["services"].items():
        assert service["image"], name
        for port in service.get("ports", []):
            assert re.fullmatch(r"127\.0\.0\.1:\$\{\w+:-\d+\}:\d+", port), port
        mounted = dict(volume.split(":") for volume in service["volumes"])
        assert set(mounted) <= declared
        if "triokeeper" in service["image"]:
            assert set(mounted.values()) == {"/data", "/datalog"}
            assert service["environment"]["ZOO_ADMINSERVER_ENABLED"] == "false"
    assert declared == {volume.split(":")[0] for s in content["services"].values() for volume in s["volumes"]}


@pytest.mark.parametrize("name", ["three-servers", "mixed-ensemble"])
def test_members_agree_on_who_they_are(name: str) -> None:
    services = yaml.safe_load((FOLDER / f"{name}.yml").read_text())["services"]
    (servers,) = {service["environment"]["ZOO_SERVERS"] for service in services.values()}

    expected = [
        f"server.{service['environment']['ZOO_MY_ID']}={name}:2888:3888;2181"
        for name, service in services.items()
    ]
    assert servers.split() == expected
    assert [service["hostname"] for service in services.values()] == list(services)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_compose_reads_it(file: Path) -> None:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed")
    done = subprocess.run(
        ["docker-compose", "-f", file, "config", "-q"], capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
