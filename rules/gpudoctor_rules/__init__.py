"""gpudoctor's own rules, found through the entry-point group `gpudoctor.rules` like anyone's.

A remedy that needs no computation is a row of its topic's table, `ADVICE` in `advice.py`; a rule that computes
an edit or a number is a module of its own.
"""

import functools

from gpudoctor.model import Rule, rules_of
from gpudoctor.model.collecting import classes_of, modules_of


@functools.cache
def collect() -> tuple[type[Rule], ...]:
    """Every Rule class defined in a module of this package, and a rule for each code of its tables."""
    tables = [module for module in modules_of(__name__) if hasattr(module, "ADVICE")]
    told = [rule for table in tables for rule in rules_of(table.ADVICE, table.__name__)]
    return (*classes_of(__name__, Rule), *told)
