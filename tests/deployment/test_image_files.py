"""What the image is built from: a Dockerfile for both builders; and engines of others are left alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import docker_engine
from scripts.docker_base_images import BUILD_IMAGE, RUN_IMAGE

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()


def test_the_dockerfile_starts_from_the_images_that_can_be_made_here() -> None:
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == [BUILD_IMAGE, RUN_IMAGE]


@pytest.mark.parametrize("only_buildkit", ["# syntax=", "<<", "--mount"])
def test_the_dockerfile_is_for_both_builders(only_buildkit: str) -> None:
    assert only_buildkit not in DOCKERFILE


def test_everything_that_is_copied_reaches_the_builder() -> None:
    """The builder sees only what .dockerignore lets through."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in sources.split():
            name = source.rstrip("/")
            assert (ROOT / name).exists(), name
            assert name in allowed or any(each.startswith(f"{name}/") for each in allowed), name


def test_scripts_of_the_image_can_be_run() -> None:
    scripts = [path for path in (ROOT / "docker" / "image").rglob("*") if path.is_file()]

    assert scripts
    for script in scripts:
        assert os.access(script, os.X_OK), script
        assert subprocess.run(["sh", "-n", script]).returncode == 0, script


def test_a_pid_file_of_another_process_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        (tmp_path / "pid").write_text(str(bystander.pid))
        monkeypatch.setattr(docker_engine, "PID_FILE", tmp_path / "pid")

        assert not docker_engine.stop_engine()
        assert bystander.poll() is None


def test_without_an_engine_and_without_root_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_engine, "answers", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(docker_engine.EngineUnavailable, match="DOCKER_HOST"):
        docker_engine.ensure_engine()


def test_an_engine_that_answers_is_used_and_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_engine, "answers", lambda: True)

    assert not docker_engine.ensure_engine()
