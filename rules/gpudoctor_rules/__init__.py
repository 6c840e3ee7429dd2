"""gpudoctor's own rules, found through the entry-point group `gpudoctor.rules` like anyone's.

A rule is one module: add a file in a topic folder and it is there.
"""

from gpudoctor.model import Rule
from gpudoctor.model.collecting import classes_of


def collect() -> tuple[type[Rule], ...]:
    """Every Rule class defined in a module of this package."""
    return classes_of(__name__, Rule)
