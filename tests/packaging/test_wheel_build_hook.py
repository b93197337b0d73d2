"""What a wheel holds where compiling does not work out."""

from types import SimpleNamespace
from typing import Any

import pytest

from scripts import wheel_build_hook
from scripts.compile_hot_modules import CompilationFailed, CompilerUnavailable


@pytest.mark.parametrize(
    "failure",
    [
        CompilerUnavailable("no C compiler"),
        CompilationFailed("error: no luck"),
        OSError(30, "Read-only file system", "build"),
    ],
)
def test_a_wheel_is_pure_where_the_modules_cannot_be_compiled(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation that asks for a wheel gets one that works, and is told why it is slower."""

    def fail() -> None:
        raise failure

    warnings: list[str] = []
    monkeypatch.setattr(wheel_build_hook, "compile_hot_modules", fail)
    app = SimpleNamespace(display_warning=warnings.append)
    hook = wheel_build_hook.CompiledModules("", {}, None, None, "", "", app)  # type: ignore[arg-type]
    build_data: dict[str, Any] = {"force_include": {}, "pure_python": True}

    hook.initialize("standard", build_data)

    assert build_data == {"force_include": {}, "pure_python": True}
    assert warnings == [f"This wheel is pure Python and slower: {failure}"]
