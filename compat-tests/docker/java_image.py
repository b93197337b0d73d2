"""An image of Apache's server to measure beside ours, where the public one cannot be pulled.

    PYTHONPATH=.:compat-tests python compat-tests/docker/java_image.py

It leaves `zookeeper-on-jre` in the engine: the Debian release and the tools of our image with a headless JRE
in the place of Python, the jars of ZooKeeper, and the heap limit of zkServer.sh.
"""

import shutil
import tempfile
from pathlib import Path

from docker.client import DockerClient

from scripts.docker_base_images import BUILD_FOLDER, RUN_PACKAGES, make_image
from scripts.docker_engine import CALL_SECONDS_MAX
from support.reference import find_reference

IMAGE = "zookeeper-on-jre"
BASE = f"{IMAGE}-base"
JRE_PACKAGE = "openjdk-21-jre-headless"
DOCKERFILE = f"""\
FROM {BASE}
COPY jars /jars
COPY conf /conf
CMD ["java", "-Xmx1000m", "-cp", "/conf:/jars/*", \
"org.apache.zookeeper.server.quorum.QuorumPeerMain", "/conf/zoo.cfg"]
"""
ZOO_CFG = "dataDir=/data\ndataLogDir=/datalog\ntickTime=2000\nclientPort=2181\n"


def main() -> None:
    packages = tuple(JRE_PACKAGE if name == "python3" else name for name in RUN_PACKAGES)
    configuration, jars = find_reference().class_path.removesuffix("/*").split(":")
    BUILD_FOLDER.mkdir(exist_ok=True)
    client = DockerClient.from_env(timeout=CALL_SECONDS_MAX)
    with tempfile.TemporaryDirectory(dir=BUILD_FOLDER, prefix="java-image-") as name:
        folder = Path(name)
        make_image(BASE, packages, folder)
        context = folder / "context"
        shutil.copytree(jars, context / "jars")
        shutil.copytree(configuration, context / "conf")
        (context / "conf" / "zoo.cfg").write_text(ZOO_CFG)
        (context / "Dockerfile").write_text(DOCKERFILE)
        client.images.build(path=str(context), tag=IMAGE, rm=True)
    client.close()
    print(IMAGE)


if __name__ == "__main__":
    main()
