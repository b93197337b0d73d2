"""Whether this installation runs compiled hot modules (`make wheel`) or the sources as they are."""

from importlib.util import find_spec
from typing import Literal, TypeAlias

BuildKind: TypeAlias = Literal["compiled", "pure"]


def build_kind() -> BuildKind:
    """Tell by the file that Python would import for a hot module, without importing it."""
    spec = find_spec("server.pipeline")
    assert spec is not None
    assert spec.origin is not None
    return "pure" if spec.origin.endswith(".py") else "compiled"
