"""gpudoctor's own checks, found through the entry-point group `gpudoctor.checks` like anyone's.

A check is one module: add a file in a topic folder and it is there.
"""

import functools
import json
from collections import defaultdict
from importlib.resources import files

from gpudoctor.model import Check, Severity
from gpudoctor.model.collecting import classes_of, indexed
from gpudoctor.model.log_message import Bearing, LibraryWarning


@functools.cache
def collect() -> tuple[type[Check], ...]:
    """The checks of this package; their modules are imported when they are needed."""
    return indexed(__name__, classes)


def classes() -> tuple[type[Check], ...]:
    """Every Check class of this package, with its rows of library_warnings.json and mentions.json."""
    warnings: defaultdict[str, list[LibraryWarning]] = defaultdict(list)
    for row in json.loads(files(__name__).joinpath("library_warnings.json").read_text("utf-8"))["warnings"]:
        code, severity = row.pop("code"), Severity(row.pop("severity"))
        row |= {"bearing": Bearing.HINT, "everywhere": True, "explains": "(?!)"}  # of no failure
        warnings[code].append(LibraryWarning(severity=severity, **row))
    found = classes_of(__name__)
    words = json.loads(files(__name__).joinpath("mentions.json").read_text("utf-8"))
    for check in found:
        check.library_warnings, check.mentions = tuple(warnings[check.code]), tuple(words.get(check.code, ()))
    return found
