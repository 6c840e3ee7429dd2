"""The plan of a mend: which remedies' edits to apply to which files, what is left and why; plans as diffs."""

import ast
import difflib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpudoctor.lang import say
from gpudoctor.mend.file_text import CannotMend, FileText, Splice, offset, read_file, splice
from gpudoctor.mend.python_edits import PythonFile
from gpudoctor.model import Applicability, Edit, ImportEdit, KeywordEdit, Ranked, Remedy, Report, TextEdit
from gpudoctor.model.records import frozen, replace


@frozen
class Applied:
    """One remedy that a file's new text carries."""

    remedy: str
    title: str
    line: int
    """1-based line of the finding in the old text, 0 when it has none."""


@frozen
class Left:
    """A remedy with an edit that was not applied."""

    remedy: str
    path: str
    reason: str


@frozen
class FileMend:
    """One file's new text."""

    name: str
    old: FileText
    new: str
    applied: tuple[Applied, ...]

    def diff(self) -> str:
        """A unified diff that `patch -p1` and `git apply` take."""
        name = self.name.lstrip("/")
        lines = difflib.unified_diff(_lines(self.old.text), _lines(self.new), fromfile=f"a/{name}", tofile=f"b/{name}")
        return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """The lines as `patch` and `git` count them: a form feed or a line separator ends none."""
    return [part + "\n" for part in text.split("\n")[:-1]] + [last for last in text.split("\n")[-1:] if last]


@frozen
class EditPlan:
    """Everything that would be written."""

    files: tuple[FileMend, ...]
    left: tuple[Left, ...]

    @property
    def diff(self) -> str:
        """The diffs of all files."""
        return "".join(item.diff() for item in self.files)


@frozen(kw_only=False)
class _Choice:
    remedy: Remedy
    line: int


def make_plan(ranked: Iterable[Ranked], *, unsafe: bool) -> EditPlan:
    """Choose each finding's best remedy that carries edits and may be applied, and merge them file by file.

    Remedies are taken in rank order; one whose edit meets an earlier one is left for a second run.
    """
    left: list[Left] = []
    return _plan([choice for item in ranked for choice in _choose(item, unsafe, left)], left)


def plan_remedies(remedies: Iterable[Remedy]) -> EditPlan:
    """The plan of these remedies, all of them, whatever they may change; merged as in `make_plan`."""
    return _plan([_Choice(remedy, 0) for remedy in remedies], [])


def _plan(choices: Sequence[_Choice], left: list[Left]) -> EditPlan:
    drafts: dict[str, _Draft] = {}
    for choice in choices:
        _add(choice, drafts, left)
    files = [mend for draft in drafts.values() for mend in draft.finish(left)]
    return EditPlan(files=tuple(files), left=tuple(left))


def patch_of(remedy: Remedy) -> str | None:
    """The unified diff of one remedy alone; None when it has no edit or the edit does not fit the file."""
    if not remedy.edits:
        return None
    plan = plan_remedies([remedy])
    return plan.diff if plan.files and not plan.left else None


def _choose(item: Ranked, unsafe: bool, left: list[Left]) -> list[_Choice]:
    allowed = {Applicability.SAFE} | ({Applicability.UNSAFE} if unsafe else set())
    span = item.finding.span
    for remedy in item.remedies:
        if not remedy.edits:
            continue
        if remedy.applicability in allowed:
            return [_Choice(remedy, span.line if span else 0)]
        unsafe_only = remedy.applicability is Applicability.UNSAFE
        why = say("may change results; --unsafe applies it") if unsafe_only else say("a person must decide")
        left.append(Left(remedy=remedy.id, path=remedy.edits[0].path, reason=why))
    return []


def _add(choice: _Choice, drafts: "dict[str, _Draft]", left: list[Left]) -> None:
    """Add a remedy to the drafts of its files, to all of them or to none."""
    paths = list(dict.fromkeys(edit.path for edit in choice.remedy.edits))
    try:
        for path in paths:
            if path not in drafts:
                drafts[path] = _Draft(path)
        for path in paths:
            drafts[path].check([edit for edit in choice.remedy.edits if edit.path == path])
    except CannotMend as reason:
        left.append(Left(remedy=choice.remedy.id, path=paths[0], reason=str(reason)))
        return
    for path in paths:
        drafts[path].add(choice, [edit for edit in choice.remedy.edits if edit.path == path])


class _Draft:
    """The edits of one file, collected in rank order."""

    def __init__(self, path: str) -> None:
        if path.endswith(".ipynb"):
            raise CannotMend("notebooks are examined, not edited; apply it by hand")
        self._name = path
        self._file = read_file(Path(path))
        self._python: PythonFile | None = None
        self._texts: list[Splice] = []
        self._keywords: dict[tuple[int, int, str], list[KeywordEdit]] = {}
        self._imports: dict[str, ImportEdit] = {}
        self._applied: list[Applied] = []

    def check(self, edits: Sequence[Edit]) -> None:
        """Raise `CannotMend` when an edit does not fit the file, or meets one that is in already."""
        splices = [item for edit in edits if isinstance(edit, TextEdit) for item in self._splice(edit)]
        calls = [
            self._parsed().keywords([*self._keywords.get(self._call_of(edit), ()), edit])
            for edit in edits
            if isinstance(edit, KeywordEdit)
        ]
        others = [self._parsed().keywords(group) for group in self._keywords.values()]
        met = any(new.meets(old) for new in splices for old in [*self._texts, *others])
        if met or any(new.meets(old) for new in calls for old in self._texts):
            raise CannotMend("it edits what another remedy edits; run --fix again")

    def add(self, choice: _Choice, edits: Sequence[Edit]) -> None:
        """Take the edits in; `check` has accepted them."""
        for edit in edits:
            if isinstance(edit, KeywordEdit):
                self._keywords.setdefault(self._call_of(edit), []).append(edit)
            elif isinstance(edit, ImportEdit):
                self._imports[edit.statement] = edit
            else:
                self._texts += self._splice(edit)
        self._applied.append(Applied(remedy=choice.remedy.id, title=choice.remedy.title, line=choice.line))

    def finish(self, left: list[Left]) -> list[FileMend]:
        """The new text, parsed once more; nothing when it would not parse or nothing changes."""
        if not self._applied:
            return []
        try:
            # An import first: what is put behind the last import may be the line that needs it.
            splices = [item for edit in self._imports.values() for item in [self._parsed().imports(edit)] if item]
            splices += self._texts
            splices += [self._parsed().keywords(group) for group in self._keywords.values()]
            new = splice(self._file.text, splices)
            _must_parse(self._name, new)
            self._file.encode(new)
        except CannotMend as reason:
            left += [Left(remedy=item.remedy, path=self._name, reason=str(reason)) for item in self._applied]
            return []
        if new == self._file.text:
            return []
        return [FileMend(name=self._name, old=self._file, new=new, applied=tuple(self._applied))]

    def _call_of(self, edit: KeywordEdit) -> tuple[int, int, str]:
        """The call that an edit is for: its place, and its name where several begin there."""
        chained = self._parsed().calls_at(edit.line, edit.column) > 1
        return edit.line, edit.column, edit.method if chained else ""

    def _parsed(self) -> PythonFile:
        if self._python is None:
            self._python = PythonFile(self._file.text)
        return self._python

    def _splice(self, edit: TextEdit) -> list[Splice]:
        """The splice of a text edit; none when the same one is in already (two findings, one cure)."""
        text = self._file.text
        start = offset(text, edit.line, edit.column)
        end = offset(text, edit.end_line, edit.end_column)
        if text[start:end] != edit.expected:
            raise CannotMend("line {line} has changed since it was examined", line=edit.line)
        item = Splice(start, end, edit.new_text)
        return [] if item in self._texts else [item]


def _must_parse(name: str, text: str) -> None:
    """Raise `CannotMend` when the new text of a known kind of file no longer parses."""
    import yaml  # type: ignore[import-untyped, unused-ignore]

    suffix = Path(name).suffix.lower()
    try:
        if suffix in {".py", ".pyw"}:
            ast.parse(text)
        elif suffix == ".json":
            _parse_json(text)
        elif suffix in {".yaml", ".yml"}:
            list(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        raise CannotMend("the result would not parse as YAML") from error
    except (SyntaxError, ValueError) as error:
        raise CannotMend("the result would not parse ({error})", error=error) from error


def _parse_json(text: str) -> None:
    """Parse JSON; a file with comments or trailing commas was none before either, and is left to its reader."""
    try:
        json.loads(text)
    except ValueError:
        if "//" not in text and "/*" not in text and not any(mark in text for mark in (",\n}", ",\n]")):
            raise


# Remedies with their edits as unified diffs.


def with_patches(report: Report) -> Report:
    """The report with each remedy's edits as a unified diff, for readers that apply them one at a time."""
    return replace(
        report,
        findings=tuple(
            replace(item, remedies=tuple(replace(remedy, patch=patch_of(remedy)) for remedy in item.remedies))
            for item in report.findings
        ),
    )
