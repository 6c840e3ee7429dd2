"""Every public name of `gpudoctor.analysis.run` and `live`, imported when the first one is asked for.

A patient that nobody ran asks for none: `from gpudoctor.analysis import of_run`, then `of_run.price(...)`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.analysis.run.everything import *
else:

    def __getattr__(name: str) -> object:
        """A public name of one of them."""
        return getattr(import_module("gpudoctor.analysis.run.everything"), name)
