"""What the modules of `gpudoctor.analysis.run` and `live` read out of a recording or a watched process.

Checks write `from gpudoctor.analysis import of_run` and `of_run.price(...)`. All of it is imported when the first name
is asked for, and a patient that nobody ran asks for none.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.analysis.run.everything import *
else:

    def __getattr__(name: str) -> object:
        """A public name of one of them."""
        return getattr(import_module("gpudoctor.analysis.run.everything"), name)
