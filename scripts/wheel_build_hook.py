"""Hatchling calls this for every wheel: it adds the compiled hot modules where there is a C compiler.

The sources are in the wheel in any case. A wheel built without a compiler, with one that fails, or where
nothing can be written beside the sources, is pure and runs everywhere; HATCH_BUILD_NO_HOOKS=true asks for it
(`make wheel-pure`). The extension modules lie beside their sources inside the folder `triokeeper`, which is
on the server's path; so is the module that mypyc puts at the top for all of them to share. Its name is a
digest of the module names and meets no other package's.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.compile_hot_modules import (
    CompilationFailed,
    CompilerUnavailable,
    check_compiler,
    compile_hot_modules,
    extension_modules,
)


class CompiledModules(BuildHookInterface):  # type: ignore[type-arg]
    def dependencies(self) -> list[str]:
        """What the compiler needs beside Hatchling: itself, and all that the sources import."""
        try:
            check_compiler()
        except CompilerUnavailable:
            return []
        core = self.metadata.core
        extras = core.optional_dependencies
        return [*core.dependencies, *extras["compile"], *extras["snappy"]]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        try:
            folder = compile_hot_modules()
        except (CompilerUnavailable, CompilationFailed, OSError) as unavailable:
            self.app.display_warning(f"This wheel is pure Python and slower: {unavailable}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for path in extension_modules(folder):
            build_data["force_include"][str(path)] = str(path.relative_to(folder))
