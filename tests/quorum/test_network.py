"""How servers reach each other."""

import pytest

from quorum.network import RealNetwork


@pytest.mark.parametrize("host", ["zoo..example", "z" * 64])
async def test_a_name_that_no_host_can_have_is_a_failure_like_any_other(host: str) -> None:
    """Before it is looked up, Python refuses it with an error of another kind."""
    with pytest.raises(OSError, match="is no host name"):
        await RealNetwork().dial(host, 2888)
    with pytest.raises(OSError, match="is no host name"):
        await RealNetwork().listen(host, 2888)
