"""gpudoctor's own rules, found through the entry-point group `gpudoctor.rules` like anyone's.

Of each topic `<topic>.toml` has the remedies whose texts are the same on every machine, and `<topic>.py` a function
marked `@answers("CODE")` for each code whose edits or numbers are computed. Neither is loaded before it is needed.
"""

import functools
import re
from collections.abc import Iterator
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Any

from gpudoctor.model import Code, Finding, Remedy, Rule, rules_of

_ANSWERS = re.compile(r"^@answers\(([^)]*)\)", re.MULTILINE)
_ROW = re.compile(r"^\[+([A-Z]+\d+)[-\]]", re.MULTILINE)


@functools.cache
def collect() -> tuple[type[Rule], ...]:
    """A rule for each code that a function answers, and then one for each code that has rows of advice.

    Which codes these are is read from the text of the files: nothing is imported.
    """
    root = Path(__file__).parent
    found: list[type[Rule]] = []
    for path in sorted(root.rglob("*.py")):
        module = ".".join([__name__, *path.relative_to(root).with_suffix("").parts])
        for codes in _ANSWERS.findall(path.read_text(encoding="utf-8")):
            found += [_lazy(code, home=module, reads_logs=False) for code in re.findall(r"\w+", codes)]
    for path in sorted(root.glob("*.toml")):
        codes = dict.fromkeys(_ROW.findall(path.read_text(encoding="utf-8")))
        found += [_lazy(code, home=path.stem, reads_logs=True) for code in codes]
    return tuple(found)


def _lazy(code: str, **held: str | bool) -> type[Rule]:
    return type(f"{code}Rule", (_Lazy,), {"answers": Code(code), "__module__": __name__, **held})


class _Lazy(Rule):
    """The functions of a module that are marked with a code, or the rows of a topic's advice that begin with it."""

    home: str

    def prescribe(self, finding: Finding, patient: Any) -> Iterator[Remedy]:
        for rule in _loaded(self.home):
            if (rule.answers, rule.reads_logs) == (self.answers, self.reads_logs):
                yield from rule().prescribe(finding, patient)


@functools.cache
def _loaded(home: str) -> tuple[type[Rule], ...]:
    """The rules of a module, by its full name, or of a topic's advice."""
    if "." in home:
        held = filter(isfunction, vars(import_module(home)).values())
        return rules_of([item for item in held if hasattr(item, "answers")], home)
    from gpudoctor_rules.advice import advice

    return rules_of(advice(home), home)
