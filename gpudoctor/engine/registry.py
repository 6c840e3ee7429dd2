"""Finds checks and rules through the entry-point groups; the engine knows none of them by name."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from gpudoctor.errors import IncompleteError
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, LogMessage, Rule
from gpudoctor.model.records import frozen

CHECKS_GROUP = "gpudoctor.checks"
RULES_GROUP = "gpudoctor.rules"

T = TypeVar("T", bound=Check | Rule)


@frozen
class Registry:
    """Every check and rule that is installed."""

    checks: Mapping[Code, type[Check]]
    rules: Mapping[Code, tuple[type[Rule], ...]]
    problems: tuple[str, ...] = ()
    """Plugins that could not be loaded, a sentence each."""

    def log_messages(self) -> "LogMessages":
        """What logs say of every ailment, with the code of its check."""
        return LogMessages(self.checks)

    def by_name(self, name: str) -> type[Check] | None:
        """The check of an ailment's name, or None."""
        return next((check for check in self.checks.values() if check.name == name), None)


@frozen(kw_only=False)
class LogMessages:
    """The messages of checks with their codes: they are read when somebody asks for one."""

    checks: Mapping[Code, type[Check]]

    def __iter__(self) -> Iterator[tuple[str, LogMessage]]:
        for code, check in self.checks.items():
            yield from ((code, message) for message in (*check.all_log_messages(), *check.library_warnings))


def load_registry() -> Registry:
    """Load every plugin; one that fails becomes a problem and the rest goes on.

    Raises `IncompleteError` when no check at all is installed.
    """
    problems: list[str] = []
    checks = _index_checks(_load(CHECKS_GROUP, Check, problems), problems)
    if not checks:
        raise IncompleteError(
            say(
                "no checks are installed (entry-point group {checks_group} is empty): install gpudoctor "
                "again, in a checkout with: pip install -e .",
                checks_group=CHECKS_GROUP,
            )
            + "".join("\n" + problem for problem in problems)
        )
    rules: dict[Code, tuple[type[Rule], ...]] = {}
    for rule, entry in _load(RULES_GROUP, Rule, problems):
        code = getattr(rule, "answers", None)
        if code not in checks:
            told = {"plugin": _plugin(entry), "kind": rule.__name__, "code": code}
            problems.append(say("plugin {plugin}: {kind} answers {code}, which no check has", **told))
            continue
        rules[code] = (*rules.get(code, ()), rule)
    return Registry(checks=checks, rules=rules, problems=tuple(problems))


def _index_checks(found: Iterable[tuple[type[Check], EntryPoint]], problems: list[str]) -> dict[Code, type[Check]]:
    """Checks by code; the first to claim a code keeps it."""
    checks: dict[Code, type[Check]] = {}
    for check, entry in found:
        code = getattr(check, "code", None)
        if not isinstance(code, str) or not getattr(check, "name", None) or code in checks:
            said = template("plugin {plugin}: {kind} has no name, or no code of its own, and was skipped")
            problems.append(say(said, plugin=_plugin(entry), kind=check.__name__))
        else:
            checks[Code(code)] = check
    return dict(sorted(checks.items()))


def _load(group: str, kind: type[T], problems: list[str]) -> list[tuple[type[T], EntryPoint]]:
    """Classes of a group with what brings them, our own plugin first."""
    found: list[tuple[type[T], EntryPoint]] = []
    for entry in _entries(tuple(sys.path))[group]:
        try:
            found += [(item, entry) for item in _collect(entry, kind)]
        except Exception as error:  # noqa: BLE001  # somebody else's code: one bad plugin must not stop the rest
            problems.append(
                say(
                    "plugin {plugin} could not be loaded: {kind}: {error}",
                    plugin=_plugin(entry),
                    kind=type(error).__name__,
                    error=error,
                )
            )
    return found


@lru_cache(maxsize=4)
def _entries(_path: tuple[str, ...]) -> Mapping[str, list[EntryPoint]]:
    """The entry points of both groups on a search path, our own first: each distribution is looked at."""
    every = entry_points()
    return {
        group: sorted(every.select(group=group), key=lambda item: (item.name != "builtin", item.name))
        for group in (CHECKS_GROUP, RULES_GROUP)
    }


def _plugin(entry: EntryPoint) -> str:
    """Who brings it, for a sentence about it: it takes time to read the metadata of a distribution."""
    return f"{entry.dist.name if entry.dist else entry.value} ({entry.name})"


def _collect(entry: EntryPoint, kind: type[T]) -> list[type[T]]:
    collect: Callable[[], Iterable[object]] = entry.load()
    classes = list(collect())
    for item in classes:
        if not (isinstance(item, type) and issubclass(item, kind)):
            raise TypeError(f"{entry.value} gave {item!r}, which is not a {kind.__name__} class")
    return [item for item in classes if isinstance(item, type) and issubclass(item, kind)]
