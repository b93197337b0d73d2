"""Size, start-up and idle memory of images that serve at port 2181, measured alike.

    PYTHONPATH=.:compat-tests python compat-tests/docker/figures.py triokeeper other-image ...

The best of several starts counts, because other work on the machine only ever adds. Start-up is the time from
`docker start` until `srvr` says in which mode it serves, and the CPU time of all processes in the container
until then. Idle memory is what those hold ten seconds later, without the kernel's file cache.
"""

import sys
import time
from collections.abc import Sequence

import attrs
from docker.client import DockerClient

from support.docker_containers import Box, Lab, open_lab, wait_for

STARTS = 3
IDLE_SECONDS = 10


@attrs.frozen
class Figures:
    ready_seconds: float
    ready_cpu_seconds: float
    idle_megabytes: float


def measure(lab: Lab, image: str) -> Figures:
    box = lab.create(image=image)
    box.start()
    began = time.monotonic()
    wait_for(lambda: box.mode is not None, box)
    ready = time.monotonic() - began
    cpu = stats(box)["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9
    time.sleep(IDLE_SECONDS)
    memory = stats(box)["memory_stats"]["stats"]
    box.kill()
    return Figures(ready, cpu, memory.get("total_rss", memory.get("anon", 0)) / 1e6)


def stats(box: Box) -> dict[str, dict[str, dict[str, float]]]:
    return dict(box.container.stats(stream=False, one_shot=True))


def main(images: Sequence[str]) -> None:
    client = DockerClient.from_env()
    print(f"{'image':<24}{'size MB':>9}{'ready s':>9}{'CPU s':>8}{'idle MB':>9}")
    for image in images:
        size = client.images.get(image).attrs["Size"] / 1e6
        with open_lab(client, image) as lab:
            seen = [measure(lab, image) for _ in range(STARTS)]
        best = [min(getattr(each, field.name) for each in seen) for field in attrs.fields(Figures)]
        print(f"{image:<24}{size:>9.0f}{best[0]:>9.2f}{best[1]:>8.2f}{best[2]:>9.0f}")
    client.close()


if __name__ == "__main__":
    main(sys.argv[1:])
