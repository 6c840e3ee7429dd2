"""Answers CFG005: the key that was meant."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    Patient,
    Remedy,
    Rule,
    Setting,
    SourceSpan,
    TextEdit,
)
from gpudoctor.model.signs.configs import ConfigFile
from gpudoctor_checks.config.unknown_key import UnknownKeyDetail
from gpudoctor_rules.config.placing import keyword_at


class UnknownKeyRule(Rule):
    """Write the known key; the value stays."""

    answers = Code("CFG005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(UnknownKeyDetail)
        key, near = detail.key, detail.near
        edits = _edits(finding, patient, key, near) if near else ()
        yield Remedy(
            id="CFG005-rename" if near else "CFG005-remove",
            title=say("replace {old} by {new}", old=key, new=near) if near else say("remove {key}", key=key),
            steps=(
                say("write {key}", key=near)
                if near
                else say("remove {key}, or update the tool that should know it", key=key),
            ),
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.SETTING,
            edits=edits,
        )


def _edits(finding: Finding, patient: Patient, key: str, near: str) -> tuple[Edit, ...]:
    place = finding.evidence[0]
    if isinstance(place, Setting):
        configs = optional(lambda: patient.configs)
        for file in configs.files if configs is not None else ():
            found = file.entries.get(place.key) or file.sections.get(place.key)
            if file.path == place.path and found is not None:
                edit = _renamed(file, found.line, found.column, key, near)
                return () if edit is None else (edit,)
    elif isinstance(place, SourceSpan):
        item = keyword_at(place, patient)
        if item is not None:
            return item.rename(near)
    return ()


def _renamed(file: ConfigFile, line: int, column: int, key: str, near: str) -> TextEdit | None:
    """The key's text at its place; one quote may stand before it."""
    at = file.text.split("\n")[line - 1].find(key, column - 1)
    if at < 0 or at > column:
        return None
    return TextEdit(
        path=file.path,
        line=line,
        column=at + 1,
        end_line=line,
        end_column=at + 1 + len(key),
        new_text=near,
        expected=key,
    )
