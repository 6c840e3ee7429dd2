"""gpudoctor's own checks, found through the entry-point group `gpudoctor.checks` like anyone's.

A check is one module: add a file in a topic folder and it is there.
"""

from gpudoctor.model import Check
from gpudoctor.model.collecting import classes_of


def collect() -> tuple[type[Check], ...]:
    """Every Check class defined in a module of this package."""
    return classes_of(__name__, Check)
