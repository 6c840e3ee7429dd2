"""Rules on the topic: config."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.memory_forecasts import change_words, stage_that_fits
from gpudoctor.analysis.source.declared_settings import Written, replace_key
from gpudoctor.analysis.source.trainer_periods import OVERRIDES, engine_period
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, answers
from gpudoctor.model.evidence import Measurement, Setting, SourceSpan
from gpudoctor.model.job_devices import lowest_capability
from gpudoctor.model.remedy import Applicability, Edit, Effort, KeywordEdit, Remedy
from gpudoctor.model.signs.configs import ConfigKind
from gpudoctor.model.signs.memory import Choice
from gpudoctor.text import size
from gpudoctor_rules.remedies import config_edit, remedy
from gpudoctor_rules.settings import (
    as_written,
    auto_edits,
    auto_remedy,
    field_edits,
    job_of,
    keyword_at,
    quoted,
    settings,
)

_PRECISIONS = {
    "auto": (
        say('"auto" for fp16.enabled and bf16.enabled in the DeepSpeed config'),
        say("transformers fills it in from the training arguments; DeepSpeed alone cannot read it"),
    ),
    "drop": (say("remove mixed_precision from the accelerate config"), say("the DeepSpeed config says it")),
    "load": (
        say("load the model in float32 (leave torch_dtype out), or train with bf16=True"),
        say("fp16=True keeps a float32 master copy only of float32 weights"),
    ),
    "none": (say("keep one of the two precisions, the same in both places"), say("bf16 where the card has it")),
}


def _setting(id: str, title: str, why: str, *edits: Edit | None) -> Remedy:
    """A setting to write, and why."""
    return remedy(id, title, title, why, effort=Effort.SETTING, edits=edits)


@answers("CFG001")
def precision_conflict(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Keep one precision: bf16 before fp16, the training arguments before DeepSpeed's config."""
    cure = finding.detail_of(Facts).cure
    if cure == "auto":
        yield _setting("CFG001-auto", *_PRECISIONS["auto"], *auto_edits(finding, patient))
    elif cure == "fp16-off":
        items = [item for _, item in settings(finding, patient) if "fp16" in item.key.lower() and item.on]
        title = say("{key} off", key="fp16")
        if items:
            title = f"{items[0].key}: false" if items[0].file is not None else f"{items[0].key}=False"
        why = say("bf16 has float32's range and needs no loss scaling")
        yield _setting(f"CFG001-{cure}", title, why, *(item.edit("false", python="False") for item in items[:1]))
    elif cure == "load-bf16":
        items = [item for _, item in settings(finding, patient) if "dtype" in item.key]
        name = items[0].key if items else "torch_dtype"
        edits = [item.edit("bfloat16", python='"bfloat16"') for item in items[:1]]
        title = say("load the model with {key}=torch.bfloat16", key=name)
        yield _setting(f"CFG001-{cure}", title, say("as it is trained"), *edits)
    else:
        yield _setting(f"CFG001-{cure}", *_PRECISIONS.get(cure, _PRECISIONS["none"]))


_DROPPED = {
    "CFG002": (
        say("drop train_batch_size; DeepSpeed computes it from the other two and the ranks"),
        say(
            "remove train_batch_size from the DeepSpeed config, or set it to "
            "train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks"
        ),
    ),
    "CFG003": (
        say("remove the optimizer section from the DeepSpeed config"),
        say("remove `optimizer` (and `scheduler`) from the DeepSpeed config; the script builds its own"),
    ),
}
"""Title and step of the remedy that leaves a setting out."""


@answers("CFG002", "CFG003")
def disagreement(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """One place alone says it: DeepSpeed takes it from the training arguments, or computes it."""
    cure, code = finding.detail_of(Facts).cure, finding.code
    items = [item for _, item in settings(finding, patient)]
    if cure == "auto" and items:
        yield auto_remedy(finding, patient, items[0].key)
    elif cure == "drop":
        yield remedy(f"{code}-drop", *_DROPPED[code], effort=Effort.SETTING)
    elif code == "CFG003":
        named = ", ".join(f"{item.key}={item.shown}" for item in items[:2])
        yield remedy(
            "CFG003-one",
            say("keep one: {settings}", settings=named),
            say("remove the other of {settings}, or give both the same value", settings=named),
            effort=Effort.SETTING,
        )


@answers("CFG004")
def zero_stage_misfit(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The fastest way to shard that fits, from the estimate."""
    job = job_of(finding, patient)
    better = stage_that_fits(job)
    if better is None:
        return
    changes: dict[str, Choice] = {name: value for name, value in better.items() if job.values[name] != value}
    projected = job.projected(**better)
    made = field_edits(job, changes, patient)
    yield remedy(
        "CFG004-stage",
        say("use {changes} ({peak})", changes=change_words(better), peak=size(projected.peak))
        if projected is not None
        else say("use {changes}", changes=change_words(better)),
        *(as_written(job, name, value, patient) for name, value in changes.items()),
        effort=Effort.ONE_LINE,
        sets=tuple((name, str(value)) for name, value in changes.items()),
        edits=made,
    )


@answers("CFG005")
def unknown_key(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Write the known key; the value stays."""
    detail = finding.detail_of(Facts)
    key, near = detail.key, detail.near
    yield remedy(
        "CFG005-rename",
        say("replace {old} by {new}", old=key, new=near),
        say("write {key}", key=near),
        effort=Effort.SETTING,
        edits=_key_edits(finding, patient, key, near),
    )


def _key_edits(finding: Finding, patient: Patient, key: str, near: str) -> tuple[Edit | None, ...]:
    place = finding.evidence[0]
    if isinstance(place, Setting):
        configs = optional(lambda: patient.configs)
        for file in configs.files if configs is not None else ():
            found = file.entries.get(place.key) or file.sections.get(place.key)
            if file.path == place.path and found is not None:
                return (replace_key(file, found.line, found.column, key, near),)
    elif isinstance(place, SourceSpan):
        item = keyword_at(place, patient)
        if item is not None:
            return item.rename(near)
    return ()


PERIODS = {"log": 50, "eval": 500, "save": 500}
"""Steps: the catalogue's 10 to 50 for logs, transformers' default of 500 for the others."""


@answers("CFG006")
def frequencies(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Set a period that suits the run's length."""
    detail = finding.detail_of(Facts)
    key, kind, run = detail.key, detail.kind, detail.run
    norm = int(detail.norm or 1)
    declared = next(part.value for part in finding.evidence if isinstance(part, Measurement))
    period = engine_period(patient, kind, float(declared), PERIODS[kind], run or None, norm)
    if period <= float(declared):
        return  # the run is too short for a period that cures
    override = OVERRIDES.get(key)
    span = finding.span
    edits = (
        _period_edits(patient, span, key, period) if span is not None else config_edit(finding, patient, str(period))
    )
    line = f"{key}={period}" if span is not None else _period_line(finding, key, period)
    yield remedy(
        f"CFG006-{kind}",
        line,
        say("{setting}   # {times} times in the run's {run} steps", setting=line, times=run // period, run=run)
        if run
        else line,
        # Other checkpoints are left behind, and early stopping sees other evaluations: those of the
        # period of the log, if they have none of their own.
        effort=Effort.SETTING,
        override=((override, str(period)),) if override is not None else (),
        sets=((key, str(period)),),
        edits=edits,
    )


def _period_edits(patient: Patient, span: SourceSpan, key: str, period: int) -> tuple[Edit, ...]:
    """The keyword of the call around the argument's place."""
    script = next((item for item in patient.source.scripts if item.path == span.path), None)
    for call in script.calls if script is not None else ():
        for keyword in call.node.keywords:
            literal = isinstance(keyword.value, ast.Constant)
            if keyword.arg == key and (keyword.lineno, keyword.col_offset + 1) == (span.line, span.column) and literal:
                place = call.span
                return (KeywordEdit(path=span.path, line=place.line, column=place.column, set=((key, str(period)),)),)
    return ()


def _period_line(finding: Finding, key: str, period: int) -> str:
    """The line to write, in the language of the config file."""
    setting = next((item for item in finding.evidence if isinstance(item, Setting)), None)
    name = key.rpartition(".")[2]
    suffix = (setting.path or "").rpartition(".")[2].lower() if setting is not None else ""
    if suffix in {"json", "jsonc"}:
        return f'"{name}": {period}'
    return f"{name} = {period}" if suffix == "toml" else f"{name}: {period}"


RANK = "8"
"""PEFT's default."""


@answers("CFG007")
def lora_misfit(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Name what the model has; scale by one or two; let gradients in."""
    cure = finding.detail_of(Facts).cure
    items = [item for _, item in settings(finding, patient)]
    if cure == "targets" and items:
        yield _targets(items[0])
    elif cure == "alpha" and len(items) == 2 and items[1].number:
        value = str(int(2 * items[1].number))
        edit = items[0].edit(value)
        yield _setting(f"CFG007-{cure}", f"{items[0].key}={value}", say("two times the rank"), edit)
    elif cure == "rank" and items:
        yield _setting(f"CFG007-{cure}", f"{items[0].key}={RANK}", say("PEFT's default"), items[0].edit(RANK))


def _targets(item: Written) -> Remedy:
    kind = item.file.kind if item.file is not None else None
    if kind is ConfigKind.AXOLOTL:
        return _setting("CFG007-targets", "lora_target_linear: true", say("instead of lora_target_modules"))
    word = "all" if kind is ConfigKind.LLAMA_FACTORY else "all-linear"
    quoted = word if item.file is not None and item.file.format == "yaml" else f'"{word}"'
    return _setting(
        "CFG007-targets",
        f"{item.key}={quoted}",
        say("every linear layer of the blocks, whatever the family calls them (PEFT 0.8 and later)"),
        item.edit(quoted, python=f'"{word}"'),
    )


_AMPERE = 8.0
"""Compute capability from which cards have bf16."""
_QUANTISED = {
    "adapter": (
        say("adapter: qlora, with load_in_4bit: true"),
        say("train LoRA on the quantised model, or switch it off"),
    ),
    "peft": (
        say("train LoRA on the quantised model"),
        "model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(...))",
    ),
    "stage": (
        say("ZeRO stage 2, or bnb_4bit_quant_storage in the training dtype"),
        say("bnb_4bit_quant_storage=torch.bfloat16 lets ZeRO-3 shard 4-bit weights; 8-bit weights need stage 2"),
    ),
}


@answers("CFG008")
def quantisation_conflict(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The setting that goes with a quantised model."""
    cure = finding.detail_of(Facts).cure
    items = [item for _, item in settings(finding, patient)]
    if cure == "eight-off" and items:
        edit = items[0].edit("false", python="False")
        yield _setting(f"CFG008-{cure}", say("4 bits only"), "load_in_8bit off", edit)
    elif cure == "lora" and items:
        why = say("or no quantization_bit")
        yield _setting(f"CFG008-{cure}", "finetuning_type: lora", why, items[0].edit("lora"))
    elif cure == "adapter-lora" and items:
        title = say("adapter: lora with 8 bits")
        yield _setting(f"CFG008-{cure}", title, "or load_in_4bit", items[0].edit("lora"))
    elif cure == "four-on":
        yield _setting(f"CFG008-{cure}", "load_in_4bit: true", say("qlora is LoRA on 4-bit weights"))
    elif cure == "compute":
        card = lowest_capability(patient)
        word = "float16" if card is not None and card < _AMPERE else "bfloat16"
        edits = [item.edit(quoted(item, word), python=f'"{word}"') for item in items[:1]]
        why = say("4-bit layers then use tensor cores")
        yield _setting("CFG008-compute", f"bnb_4bit_compute_dtype={word}", why, *edits)
    else:
        yield _setting(f"CFG008-{cure}", *_QUANTISED.get(cure, _QUANTISED["peft"]))


@answers("CFG009")
def deprecated_key(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The same value under its new name, where it has one."""
    detail = finding.detail_of(Facts)
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
        yield remedy(
            "CFG009-value",
            say("replace {old} by {new}", old=old_value, new=new),
            new,
            applicability=_applicability(bool(changed), known),
            effort=Effort.SETTING,
            edits=tuple(changed),
        )
        return
    old = items[0].key.rpartition(".")[2].lstrip("-") if items else say("the key")
    dropped = new.startswith("nothing")
    yield remedy(
        "CFG009-rename" if same else "CFG009-drop" if dropped else "CFG009-replace",
        say("replace {old} by {new}", old=old, new=new) if not dropped else say("remove {key}", key=old),
        say("remove {key}: {reason}", key=old, reason=new.partition(": ")[2] or say("nothing takes its place"))
        if dropped
        else new,
        applicability=_applicability(bool(edits), known),
        effort=Effort.SETTING,
        edits=tuple(edits),
    )


def _applicability(edited: bool, known: bool) -> Applicability:
    """Safe where the installed version is known to take the new name; an older one might not."""
    if not edited:
        return Applicability.DISPLAY_ONLY
    return Applicability.SAFE if known else Applicability.UNSAFE
