"""The data of quota nodes."""

import pytest

from client.zkcli.failures import JavaException
from client.zkcli.quota_text import Figures, warnings_about


@pytest.mark.parametrize(
    "text", ["count=5,bytes=-1", "count=5,bytes=-1=;byteHardLimit=3;countHardLimit=-1", "count=-1,bytes=-1"]
)
def test_there_and_back(text: str) -> None:
    assert str(Figures.parse(text.encode())) == text


def test_what_is_missing_is_no_limit() -> None:
    assert str(Figures.parse(None)) == "count=-1,bytes=-1"
    assert Figures.parse(b"count=,bytes=4").numbers == {"count": -1, "bytes": 4}


def test_junk_is_refused() -> None:
    with pytest.raises(JavaException, match="For input string"):
        Figures.parse(b"count=x")


def test_warnings_tell_of_limits_exceeded_already() -> None:
    use = Figures({"count": 4, "bytes": 10})

    assert warnings_about(Figures({"count": 4, "byteHardLimit": 10}), use) == []
    assert warnings_about(Figures({"count": 3, "byteHardLimit": 9}), use) == [
        "[Warning]: the count quota you create is less than the existing count:4",
        "[Warning]: the bytes quota you create is less than the existing bytes:10",
    ]
