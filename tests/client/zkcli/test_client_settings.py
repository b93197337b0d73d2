"""What asks for TLS is refused, whichever way it asks; nothing meant to be encrypted goes in the clear."""

from pathlib import Path

import pytest

from client.zkcli.client_settings import SettingsRefused, check_settings


@pytest.fixture(autouse=True)
def _no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JVMFLAGS", "CLIENT_JVMFLAGS"):
        monkeypatch.delenv(name, raising=False)


def test_a_plain_client_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "client.cfg"
    file.write_text("zookeeper.request.timeout=0\nzookeeper.client.secure=false\n")
    monkeypatch.setenv("CLIENT_JVMFLAGS", "-Xmx64m -Dzookeeper.client.secure=false")

    assert check_settings(str(file)) == []
    assert check_settings(None) == []


def test_what_has_no_effect_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "client.cfg"
    file.write_text("zookeeper.request.timeout=5\n")
    monkeypatch.setenv("JVMFLAGS", "-Djava.security.auth.login.config=/jaas.conf")

    assert check_settings(str(file)) == [
        "java.security.auth.login.config=/jaas.conf has no effect: SASL is not supported yet",
        "zookeeper.request.timeout=5 has no effect: an answer is waited for until the connection is lost",
    ]


@pytest.mark.parametrize("name", ["JVMFLAGS", "CLIENT_JVMFLAGS"])
def test_tls_by_flags_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "-Xmx64m -Dzookeeper.client.secure=true")

    with pytest.raises(SettingsRefused, match=r"zookeeper.client.secure=true: TLS is not supported yet"):
        check_settings(None)


def test_tls_by_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.cfg"
    file.write_text("zookeeper.client.secure = true\n")

    with pytest.raises(SettingsRefused, match="TLS"):
        check_settings(str(file))
