"""What checks and rules say, in `tests/checks/said.txt`, so that the change of a word is seen.

Under a code or a remedy's name stands what the tests of checks find, without its values; what is found in a patient
on file, in a recording or on a machine stands there whole. `make words` writes the file anew from what the tests find.
"""

import fcntl
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from gpudoctor.analysis.workload import optional
from gpudoctor.lang.message import Message, row_template
from gpudoctor.model import Finding, Measurement, Patient, Remedy
from gpudoctor_rules import advice as module

FILE = Path(__file__).parent.parent / "checks" / "said.txt"
RENEW = bool(os.environ.get("GPUDOCTOR_UPDATE_WORDS"))
LISTED = ("is", "measured", "not examined", "breaks")
"""Kinds of lines that stand in one."""
_met: dict[str, set[str]] = defaultdict(set)
"""What was said while the file is written anew."""


def compare(finding: Finding, remedies: Iterable[Remedy], patient: Patient) -> None:
    """Assert that the file has what the finding and its remedies say."""
    for heading, line in _said(finding, remedies, patient):
        _compare(heading, line)


def compare_reason(code: str, reason: str) -> None:
    """Assert that the file has why a check did not look."""
    _compare(str(code), f"not examined: {_frame(reason)}")


def _compare(heading: str, line: str) -> None:
    if RENEW:
        _met[heading].add(line)
    else:
        assert line in _known().get(heading, ()), f"{heading} is not known to say (make words): {line}"


def compare_whole(code: str, name: str, lines: set[str]) -> None:
    """Assert that the file has these lines of a patient on file, and no other of it."""
    lines = {f"{name}: {_short(line)}" for line in lines}
    if RENEW:
        _met[code] |= lines
    else:
        known = {line for line in _known().get(code, ()) if line.startswith(f"{name}: ")}
        assert lines == known, f"{name}: not what said.txt has of {code} (make words)"


def with_numbers(finding: Finding) -> str:
    """What is found in a recording, with what was measured."""
    cost = {"of a step": finding.cost.step_share, "of the host": finding.cost.host_share}
    numbers = [f"{share:.2g} {name}" for name, share in cost.items() if share is not None]
    for item in finding.evidence:
        if isinstance(item, Measurement):
            numbers.append(f"{item.name} {item.value if isinstance(item.value, str) else format(item.value, '.3g')}")
    text = f"{finding.confidence.value} {finding.severity.value}: {finding.message} ({', '.join(numbers)})"
    return " ".join(text.split())


def _short(text: str) -> str:
    """A text with the names of files alone."""
    return re.sub(r"(?<![^\s'\"(=])(/[\w.-]+)+/", "", text.replace(str(FILE.parents[2]), "/folder"))


def write() -> None:
    """Add what was met to the file."""
    if RENEW:
        with FILE.open("a", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            every = {heading: _known().get(heading, set()) | _met[heading] for heading in {*_known(), *_met}}
            FILE.write_text("".join(_block(heading, every[heading]) for heading in sorted(every)), encoding="utf-8")


def _block(heading: str, lines: set[str]) -> str:
    """The lines under their heading; the short ones of a kind in one line."""
    kinds = {kind: sorted(line.partition(": ")[2] for line in lines if line.startswith(f"{kind}: ")) for kind in LISTED}
    short = [f"{kind}: {' | '.join(items)}" for kind, items in kinds.items() if items]
    long = sorted(line for line in lines if not line.startswith(tuple(f"{kind}: " for kind in LISTED)))
    block = [*short, *long]
    return f"{heading}: {block[0]}\n" if len(block) == 1 else "\n    ".join([heading, *block]) + "\n"


def _said(finding: Finding, remedies: Iterable[Remedy], patient: Patient) -> Iterator[tuple[str, str]]:
    """Heading and line; lines of the program that a remedy repeats are left out."""
    code = str(finding.code)
    yield code, f"is: {finding.confidence.value} {finding.severity.value}"
    for item in finding.evidence:
        if isinstance(item, Measurement):
            yield code, f"measured: {item.name} [{item.unit}]"
    yield code, _frame(finding.message)
    if finding.cost.breaks:
        yield code, f"breaks: {_frame(finding.cost.breaks)}"
    source = optional(lambda: patient.source)
    program = {line.strip() for script in (source.scripts if source else ()) for line in script.text.splitlines()}
    for remedy in remedies:
        own = [step for step in remedy.steps if step.partition("  # ")[0].strip() not in program]
        spoken = (text for text in (remedy.title, *own) if getattr(text, "template", text) not in _rows())
        yield from ((remedy.id, _frame(text)) for text in spoken if text.strip())


@cache
def _rows() -> set[str]:
    """The texts of rows of advice and of the table of Xids: they stand in files already."""
    topics = [path.stem for path in Path(str(module.__file__)).parent.glob("*.toml")]
    remedies = [row.remedy for topic in topics for row in module.advice(topic)]
    table = files("gpudoctor_checks.hardware").joinpath("xid.json").read_text(encoding="utf-8")
    data = set(re.findall(r'": "(.*?)"[,}]', table))
    texts = {text for item in remedies for text in (item.title, *item.steps)}
    return data | texts | {row_template(text) for text in texts}


def _frame(text: str) -> str:
    """A message with its values' names: "{share} of the time; it prepares them itself"."""
    return " ".join(_filled(text).split())


def _filled(text: str) -> str:
    if not isinstance(text, Message):
        return re.sub(r"\d+", "#", _short(text))
    spoken = {name: part for name, part in text.parts.items() if isinstance(part, Message) and part not in _rows()}
    parts = {name: _filled(spoken[name]) if name in spoken else f"{{{name}}}" for name in text.parts}
    return re.sub(r"\{(\w+)[^{}]*\}", lambda found: parts.get(found[1], found[0]), text.template)


@cache
def _known() -> dict[str, set[str]]:
    """What the file has."""
    found: dict[str, set[str]] = {}
    heading = ""
    for line in FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else ():
        text = line.strip()
        if not line.startswith(" "):
            heading, _, text = line.partition(": ")
            found[heading] = set()
        kind, _, items = text.partition(": ")
        if text:
            found[heading] |= {f"{kind}: {item}" for item in items.split(" | ")} if kind in LISTED else {text}
    return found
