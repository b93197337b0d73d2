"""What these tests share with compat-tests/."""

from support.fixtures import reference

__all__ = ["reference"]
