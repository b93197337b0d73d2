"""tooz and celery, each as a program that says what it has done while its server is killed."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.environments import AppUnavailable, python_with
from support.targets import Service

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
TOOZ, CELERY = "9.1.0", "5.7.0"


def tell(python: Path, program: Path, service: Service) -> list[str]:
    """Run a program, and kill its server when it asks for it; all its lines."""
    with subprocess.Popen(
        [python, program, service.hosts],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = []
        try:
            for line in process.stdout:
                lines.append(line.strip())
                if lines[-1] == "restart":
                    service.kill9(1)
                    service.start(1)
                    print("done", file=process.stdin, flush=True)
        finally:
            process.kill()
    return lines


def test_tooz_keeps_group_and_lock(
    restartable: Service, record_property: Callable[[str, object], None]
) -> None:
    record_property("client", f"tooz {TOOZ}")
    try:
        python = python_with("tooz", f"tooz[zookeeper]=={TOOZ}")
    except AppUnavailable as reason:
        pytest.skip(str(reason))
    lines = tell(python, HERE / "tooz_program.py", restartable)
    done = [line for line in lines if line.startswith("ok ")]
    assert done == ["ok group", "ok lock", "ok leader", "ok restart", "ok end"], "\n".join(lines)


def test_celery_delivers_messages_and_tasks(
    restartable: Service, record_property: Callable[[str, object], None]
) -> None:
    record_property("client", f"celery and kombu {CELERY}")
    try:
        python = python_with("celery", f"celery=={CELERY}", f"kombu=={CELERY}", "kazoo==2.11.0")
    except AppUnavailable as reason:
        pytest.skip(str(reason))
    lines = tell(python, HERE / "kombu_program.py", restartable)
    done = [line for line in lines if line.startswith("ok ")]
    assert done == ["ok queue", "ok task", "ok restart", "ok end"], "\n".join(lines)
