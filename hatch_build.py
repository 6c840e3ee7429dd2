"""Build hook: compiles the catalogues of translations (PO) into the form that gpudoctor reads (MO)."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileCatalogues(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before a wheel is built, and before an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write a MO file beside each PO file of the packages."""
        sys.path.insert(0, self.root)
        from gpudoctor.lang.catalogue import compile_catalogue

        for package in self.build_config.packages:
            for path in Path(self.root, package).glob("lang/*/LC_MESSAGES/*.po"):
                compile_catalogue(str(path))
