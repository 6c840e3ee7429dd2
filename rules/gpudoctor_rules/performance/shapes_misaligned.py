"""Answers PERF008 shapes-misaligned."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, KeywordEdit, Patient, Remedy, Rule
from gpudoctor_checks.performance.shapes_misaligned import ShapesMisalignedDetail


class ShapesMisalignedRule(Rule):
    """Round up; pad vocabularies and batches to a multiple."""

    answers = Code("PERF008")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        title, steps, edits = _answer(finding, patient)
        yield Remedy(
            id="PERF008-align",
            title=title,
            steps=steps,
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE if edits else Effort.SMALL_EDIT,
            effect=None,  # nothing to a quarter of a step, by card, library and size
            edits=edits,
            references=(
                "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
            ),
        )


def _answer(finding: Finding, patient: Patient) -> tuple[str, tuple[str, ...], tuple[Edit, ...]]:
    detail = finding.detail_of(ShapesMisalignedDetail)
    kind, span = detail.kind, finding.span
    if kind in ("vocabulary", "collator"):
        change = ((detail.keyword, detail.value),)
        title = f"{change[0][0]}={change[0][1]}"
        line = span.line if span is not None else 0
        edits: tuple[Edit, ...] = ()
        behind = detail.from_end
        if behind:
            step = say(
                "Line {behind} counts rows from the end, at the padding: count from the old length.",
                behind=behind,
            )
            return title, (say("Line {line}: {title}", line=line, title=title), step), ()
        if span is not None:
            edits = (KeywordEdit(path=span.path, line=line, column=span.column, set=change),)
        return title, (say("Line {line}: {title}", line=line, title=title),), edits
    rounded, size = detail.rounded, detail.size
    if kind == "config":
        key = detail.key
        title = f"{key}: {rounded}"
        for file in patient.configs.files:
            entry = file.entries.get(key) if file.path == detail.path else None
            edit = file.edit(entry, str(rounded)) if entry is not None else None
            if edit is not None:
                return title, (title, say("The network's shape changes: for runs from scratch only.")), (edit,)
        return title, (title,), ()
    return (
        f"{size} -> {rounded}",
        (
            say(
                "Round {size} up to {rounded}. Rows of a vocabulary that no token uses cost nothing "
                "but memory.",
                size=size,
                rounded=rounded,
            ),
        ),
        (),
    )
