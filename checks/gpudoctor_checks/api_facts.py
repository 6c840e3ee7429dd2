"""The table of API facts: what libraries renamed, deprecated or removed, in which release, and what to write now."""

import json
from functools import cache
from importlib.resources import files

from gpudoctor.model.cuda import numbers
from gpudoctor.model.records import frozen


@frozen
class ApiFact:
    """One row; `about` in the table says what the columns mean. What a row leaves out is \"\", or false."""

    name: str
    """The call, module, attribute, method or key."""
    new: str
    since: str
    gone: str = ""
    ignored: str = ""
    back: str = ""
    package: str = "torch"
    what: str = ""
    """What a message calls it, where that is not its name."""
    keyword: str = ""
    value: str = ""
    same: bool = False
    rename: str = ""
    first_argument: str = ""
    set_to: str = ""
    add: str = ""
    drop: bool = False
    prefix: bool = False
    """Whether the name is where the call's or the module's name begins."""
    suffix: str = ""
    """Where the method's name ends."""
    imports: str = ""
    """The package that a script imports, for a method that is told by its arguments."""
    positional: int = 0
    """Arguments by place that tell a method."""
    files_only: bool = False
    source: str = ""

    def names(self, name: str) -> bool:
        """Whether a call, a class or a module is the one that is meant, or below it."""
        return name == self.name or (self.prefix and name.startswith(self.name + "."))


@cache
def _tables() -> dict[str, tuple[ApiFact, ...]]:
    raw = json.loads(files(__package__).joinpath("api_facts.json").read_text("utf-8"))
    return {name: tuple(ApiFact(**row) for row in rows) for name, rows in raw["tables"].items()}


def facts(table: str) -> tuple[ApiFact, ...]:
    """The rows of one table; none for a tool without a table."""
    return _tables().get(table, ())


def reached(version: str | None, release: str) -> bool:
    """Whether a version is at or above a release, by its leading numbers (`2.13.0a0+git` reaches `2.13`).

    False where either is not a version.
    """
    have, wanted = numbers(version or ""), numbers(release)
    return bool(have and wanted) and (*have, 0, 0, 0)[:3] >= (*wanted, 0, 0, 0)[:3]
