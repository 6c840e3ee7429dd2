"""Answers CFG009: the new name."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.config.deprecated_key import DeprecatedKeyDetail
from gpudoctor_rules.config.placing import quoted, settings


class DeprecatedKeyRule(Rule):
    """The same value under its new name, where it has one."""

    answers = Code("CFG009")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(DeprecatedKeyDetail)
        new, same = detail.new, detail.same
        edits: list[Edit] = []
        pairs = list(settings(finding, patient))
        items = [item for _, item in pairs]
        # What a file's reader ignored until now, the new name switches on.
        known = detail.installed and all(item.file is None for item in items)
        if same and not any(setup is not None and new in setup.items for setup, _ in pairs):
            for item in items:
                edits += item.rename(new)
        old_value = detail.value
        if old_value:
            changed = [edit for item in items if (edit := item.edit(quoted(item, new), python=repr(new)))]
            yield Remedy(
                id="CFG009-value",
                title=say("replace {old} by {new}", old=old_value, new=new),
                steps=(new,),
                applicability=_applicability(bool(changed), known),
                effort=Effort.SETTING,
                edits=tuple(changed),
            )
            return
        old = items[0].key.rpartition(".")[2].lstrip("-") if items else say("the key")
        dropped = new.startswith("nothing")
        yield Remedy(
            id="CFG009-rename" if same else "CFG009-drop" if dropped else "CFG009-replace",
            title=say("replace {old} by {new}", old=old, new=new) if not dropped else say("remove {key}", key=old),
            steps=(
                say("remove {key}: {reason}", key=old, reason=new.partition(": ")[2] or say("nothing takes its place"))
                if dropped
                else new,
            ),
            applicability=_applicability(bool(edits), known),
            effort=Effort.SETTING,
            edits=tuple(edits),
        )


def _applicability(edited: bool, known: bool) -> Applicability:
    """Safe where the installed version is known to take the new name; an older one might not."""
    if not edited:
        return Applicability.DISPLAY_ONLY
    return Applicability.SAFE if known else Applicability.UNSAFE
