"""Which server `status` asks without an address."""

from pathlib import Path

import pytest

from client.status.default_address import default_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("clientPort=2281\n", ("localhost", 2281)),
        ("# clientPort=1\n clientPort : 2282 \nclientPortAddress=0.0.0.0", ("localhost", 2282)),
        ("clientPortAddress=10.0.0.7\nclientPort=2281\n", ("10.0.0.7", 2281)),
        ("clientPort=nonsense\n", ("localhost", 2181)),
        ("clientPort=70000\n", ("localhost", 2181)),
        ("tickTime=2000\n", ("localhost", 2181)),
        ("dataDir={home}\nserver.1=a:1:2;2281\nserver.2=b:1:2;10.0.0.2:2282\n", ("10.0.0.2", 2282)),
        ("dataDir={home}\nserver.2=b:1:2;[::]:2282\n", ("localhost", 2282)),
        ("dataDir={home}\ndynamicConfigFile={home}/dynamic\n", ("localhost", 2283)),
    ],
)
def test_it_is_in_the_configuration(tmp_path: Path, text: str, address: tuple[str, int]) -> None:
    (tmp_path / "zoo.cfg").write_text(text.format(home=tmp_path))
    (tmp_path / "myid").write_text("2\n")
    (tmp_path / "dynamic").write_text("server.2=b:1:2:participant;2283\n")
    assert default_address({"ZOOCFGDIR": str(tmp_path)}) == address
    assert default_address({"ZOO_CONF_DIR": str(tmp_path)}) == address


def test_without_a_configuration_it_is_the_usual_port(tmp_path: Path) -> None:
    assert default_address({}) == ("localhost", 2181)
    assert default_address({"ZOOCFGDIR": str(tmp_path)}) == ("localhost", 2181)


def test_the_file_may_have_another_name(tmp_path: Path) -> None:
    (tmp_path / "other.cfg").write_text("clientPort=2299\n")
    assert default_address({"ZOOCFGDIR": str(tmp_path), "ZOOCFG": "other.cfg"}) == ("localhost", 2299)
