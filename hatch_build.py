"""Build hook: compiles the catalogues of translations (PO into MO), and lists the checks for who does not need them."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Prepare(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before a wheel is built, and before an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write a MO file beside each PO file of the packages, and the index of the checks."""
        sys.path[:0] = [self.root, str(Path(self.root, "checks"))]
        from gpudoctor.lang.catalogue import compile_catalogue

        for package in self.build_config.packages:
            for path in Path(self.root, package).glob("lang/*/LC_MESSAGES/*.po"):
                compile_catalogue(str(path))
        from gpudoctor_checks import collect  # noqa: TID251

        collect()
