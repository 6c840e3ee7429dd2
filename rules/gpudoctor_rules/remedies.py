"""What the rules of every topic share: a remedy in one call, the places that a finding speaks of, edits there."""

import ast
from collections.abc import Iterable, Iterator

from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_edits import insert_after
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.model import Finding, Patient, Resource
from gpudoctor.model.evidence import Setting, SourceSpan
from gpudoctor.model.remedy import Applicability, Edit, Effect, EffectOrigin, Effort, ImportEdit, KeywordEdit, Remedy
from gpudoctor.model.signs.configs import ConfigFile
from gpudoctor.model.signs.source import Call, Script


def remedy(
    id: str,
    title: str,
    *steps: str,
    applicability: Applicability | None = None,
    effort: Effort = Effort.SMALL_EDIT,
    effect: Effect | None = None,
    bounded: bool = True,
    sets: tuple[tuple[str, str], ...] = (),
    uses: frozenset[Resource] = frozenset(),
    edits: Iterable[Edit | None] = (),
    override: tuple[tuple[str, str], ...] = (),
    references: tuple[str, ...] = (),
) -> Remedy:
    """A remedy; unless the rule says otherwise it may change results if it has edits, and else a person must act.

    Of `edits` those that could not be made are None.
    """
    made = tuple(edit for edit in edits if edit is not None)
    return Remedy(
        id=id,
        title=title,
        steps=steps,
        applicability=applicability or (Applicability.UNSAFE if made else Applicability.DISPLAY_ONLY),
        effort=effort,
        effect=effect,
        bounded=bounded,
        sets=sets,
        uses=uses,
        edits=made,
        override=override,
        references=references,
    )


def published(low: float, high: float) -> Effect:
    """A factor of throughput that somebody measured; the remedy's references say who."""
    return Effect(quantity="throughput", low=low, high=high, unit="x", provenance=EffectOrigin.PUBLISHED)


def keyword_edit(
    span: SourceSpan, set: tuple[tuple[str, str], ...] = (), remove: tuple[str, ...] = (), method: str = ""
) -> KeywordEdit:
    """The edit of the call that stands at a place."""
    return KeywordEdit(path=span.path, line=span.line, column=span.column, set=set, remove=remove, method=method)


def source_places(finding: Finding) -> list[SourceSpan]:
    """The places in scripts among the evidence."""
    return [item for item in finding.evidence if isinstance(item, SourceSpan)]


def script_of(patient: Patient, place: SourceSpan | None) -> Script | None:
    """The script that a place is in; None where there is none."""
    if place is None:
        return None
    return next((item for item in scripts_given(patient).scripts if item.path == place.path), None)


def loop_at(script: Script, line: int) -> ast.For | None:
    """The `for` that begins in a line."""
    return next((node for node in nodes(script, ast.For) if node.lineno == line), None)


def call_at(patient: Patient, place: SourceSpan | None) -> tuple[Script, Call] | None:
    """The call that stands at a place, with its script."""
    script = script_of(patient, place)
    return next(((script, call) for call in script.calls if call.span == place), None) if script is not None else None


def after_imports(script: Script, line: str) -> Iterator[Edit]:
    """A line after the first imports at the head of a script, and torch's import where it is not there."""
    kinds = [isinstance(node, ast.Import | ast.ImportFrom) for node in script.tree.body]
    if True not in kinds or script.path.endswith(".ipynb"):
        return
    end = kinds.index(False, kinds.index(True)) if False in kinds[kinds.index(True) :] else len(kinds)
    if script.imports.get("torch") != "torch":
        yield ImportEdit(path=script.path, statement="import torch")
    yield insert_after(script, script.tree.body[end - 1], f"\n{line}")


def in_config(file: ConfigFile, word: str) -> str:
    """A value in the language of a config: a word in quotes where these need it."""
    plain = file.format not in {"json", "toml"} or word in {"true", "false"} or word.lstrip("-").isdigit()
    return word if plain else f'"{word}"'


def config_edit(finding: Finding, patient: Patient, value: str) -> tuple[Edit, ...]:
    """Another value for the first key of a config among the evidence that can be written."""
    for setting in (item for item in finding.evidence if isinstance(item, Setting)):
        for file in patient.configs.files:
            entry = file.entries.get(setting.key) if file.path == setting.path else None
            edit = file.edit(entry, in_config(file, value)) if entry is not None else None
            if edit is not None:
                return (edit,)
    return ()
