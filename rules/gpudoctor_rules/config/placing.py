"""From a finding's evidence back to the settings that it speaks of, for an edit."""

from collections.abc import Iterator

from gpudoctor.analysis.source.declared_settings import Setup, Tool, Written, from_entry, from_keyword
from gpudoctor.analysis.source.training_arguments import deepspeed_configs, training_arguments
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Edit, Effort, Finding, Patient, Remedy, Setting, SourceSpan


def settings(finding: Finding, patient: Patient) -> Iterator[tuple[Setup | None, Written]]:
    """Every setting among the evidence, with the setup that it belongs to, in the evidence's order."""
    setups = [*deepspeed_configs(patient), *training_arguments(patient)]
    for place in finding.evidence:
        if not isinstance(place, Setting | SourceSpan):
            continue
        found = next(((setup, item) for setup in setups for item in setup.items.values() if item.place == place), None)
        if found is not None:
            yield found
        else:
            item = entry_at(place, patient) if isinstance(place, Setting) else keyword_at(place, patient)
            if item is not None:
                yield None, item


def entry_at(place: Setting, patient: Patient) -> Written | None:
    """The key of a config that stands at a place."""
    configs = optional(lambda: patient.configs)
    for file in configs.files if configs is not None else ():
        if file.path == place.path and place.key in file.entries:
            return from_entry(file, file.entries[place.key])
    return None


def keyword_at(place: SourceSpan, patient: Patient) -> Written | None:
    """The argument of a call that stands at a place in a script."""
    source = optional(lambda: patient.source)
    for script in source.scripts if source is not None else ():
        if script.path != place.path:
            continue
        for call in script.calls:
            for keyword in call.node.keywords:
                at = keyword.lineno == place.line and script.span(keyword) == place
                if at and keyword.arg is not None:
                    return from_keyword(script, call, keyword.arg)
    return None


def auto_edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The edits that leave DeepSpeed's side of a mismatch to the training arguments."""
    edits: list[Edit] = []
    for setup, item in settings(finding, patient):
        if setup is not None and setup.tool is Tool.DEEPSPEED:
            edit = item.edit(quoted(item, "auto"), python='"auto"')
            if edit is not None and edit not in edits:
                edits.append(edit)
    return tuple(edits)


def auto_remedy(finding: Finding, patient: Patient, key: str) -> Remedy:
    """DeepSpeed's side left to the training arguments, with the name of who reads that."""
    return Remedy(
        id=f"{finding.code}-auto",
        title=say('{key}: "auto" in the DeepSpeed config', key=key),
        steps=(
            say(
                '"{key}": "auto"   # transformers fills it in; DeepSpeed alone cannot read it',
                key=key.rpartition(".")[2],
            ),
        ),
        applicability=Applicability.UNSAFE,
        effort=Effort.SETTING,
        edits=auto_edits(finding, patient),
    )


def quoted(item: Written, word: str) -> str:
    """A word in the language of the setting's file."""
    return f'"{word}"' if item.file is None or item.file.format in {"json", "toml"} else word
