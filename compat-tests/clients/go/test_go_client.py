"""go-zookeeper/zk, from the Go module proxy: main.go tries each feature."""

from collections.abc import Callable

import pytest

from clients.languages import check_feature
from clients.programs import FEATURES
from support.targets import Target

pytestmark = pytest.mark.timeout(1500, func_only=True)


@pytest.mark.parametrize("feature", FEATURES)
def test_client(feature: str, target: Target, record_property: Callable[[str, object], None]) -> None:
    check_feature("go", feature, target, record_property)
