"""From a finding, or a field of a forecast, to the setting that it speaks of, for an edit."""

from collections.abc import Iterator, Mapping

from gpudoctor.analysis.source.declared_settings import Setup, Written, from_entry, from_keyword
from gpudoctor.analysis.source.training_arguments import deepspeed_configs, training_arguments
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Edit, Effort, Finding, Patient, Remedy, Setting, SourceSpan
from gpudoctor.model.signs.configs import ConfigKind
from gpudoctor.model.signs.memory import Choice, JobMemory
from gpudoctor_rules.remedies import remedy


def settings(finding: Finding, patient: Patient) -> Iterator[tuple[Setup | None, Written]]:
    """Every setting among the evidence, with the setup that it belongs to, in the evidence's order."""
    setups = [*deepspeed_configs(patient), *training_arguments(patient)]
    for place in finding.evidence:
        if not isinstance(place, Setting | SourceSpan):
            continue
        found = next(((one, item) for one in setups for item in one.items.values() if item.stands_at(place)), None)
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
        if setup is not None and setup.kind is ConfigKind.DEEPSPEED:
            edit = item.edit(quoted(item, "auto"), python='"auto"')
            if edit is not None and edit not in edits:
                edits.append(edit)
    return tuple(edits)


def auto_remedy(finding: Finding, patient: Patient, key: str) -> Remedy:
    """DeepSpeed's side left to the training arguments, with the name of who reads that."""
    return remedy(
        f"{finding.code}-auto",
        say('{key}: "auto" in the DeepSpeed config', key=key),
        say('"{key}": "auto"   # transformers fills it in; DeepSpeed alone cannot read it', key=key.rpartition(".")[2]),
        applicability=Applicability.UNSAFE,
        effort=Effort.SETTING,
        edits=auto_edits(finding, patient),
    )


def quoted(item: Written, word: str) -> str:
    """A word in the language of the setting's file."""
    return f'"{word}"' if item.file is None or item.file.format in {"json", "toml"} else word


KEYS = {
    "batch": "per_device_train_batch_size", "accumulate": "gradient_accumulation_steps",
    "checkpointing": "gradient_checkpointing", "optimizer": "optim", "parallel": "zero_optimization.stage",
    "offload": "zero_optimization.offload_optimizer.device",
}  # fmt: skip
"""Field to the training arguments' name, where nobody wrote one."""


def job_of(finding: Finding, patient: Patient) -> JobMemory:
    """The job that a finding speaks of."""
    return next(job for job in patient.memory if job.title == finding.subject)


def known_job(finding: Finding, patient: Patient) -> JobMemory | None:
    """The job that a finding speaks of; None where a recording alone told it."""
    return next((job for job in optional(lambda: patient.memory) or () if job.title == finding.subject), None)


def written(job: JobMemory, name: str, patient: Patient) -> Written | None:
    """The setting that gives a field its value; None where it is no key and no argument."""
    place = job.places.get(name)
    if place is None:
        return None
    return keyword_at(place, patient) if isinstance(place, SourceSpan) else entry_at(place, patient)


_LIGER = {
    ConfigKind.HUGGINGFACE: "use_liger_kernel: true",
    ConfigKind.LLAMA_FACTORY: "enable_liger_kernel: true",
    ConfigKind.AXOLOTL: "liger_fused_linear_cross_entropy: true",
    ConfigKind.TORCHTUNE: say("loss._component_: torchtune.modules.loss.CEWithChunkedOutputLoss"),
    None: say("use_liger_kernel=True   # in TrainingArguments"),
}
"""The chunked loss in each reader's own words; None is a script."""
_METHODS = {
    ConfigKind.HUGGINGFACE: ("use_peft: true", say("use_peft: true, load_in_4bit: true")),
    ConfigKind.LLAMA_FACTORY: (say("finetuning_type: lora"), say("finetuning_type: lora, quantization_bit: 4")),
    ConfigKind.AXOLOTL: (say("adapter: lora"), say("adapter: qlora, load_in_4bit: true")),
    None: (
        "model = peft.get_peft_model(model, peft.LoraConfig())",
        "BitsAndBytesConfig(load_in_4bit=True) for from_pretrained, and peft.get_peft_model",
    ),
}
"""LoRA and QLoRA in each reader's own words."""
_OWN_KEYS = {
    (ConfigKind.AXOLOTL, "batch"): "micro_batch_size",
    (ConfigKind.AXOLOTL, "optimizer"): "optimizer",
    (ConfigKind.TORCHTUNE, "batch"): "batch_size",
    (ConfigKind.TORCHTUNE, "checkpointing"): "enable_activation_checkpointing",
    (ConfigKind.TORCHTUNE, "optimizer"): "optimizer._component_",
    (ConfigKind.LLAMA_FACTORY, "checkpointing"): "disable_gradient_checkpointing",
}
"""Keys that a reader calls by another name than TrainingArguments does."""


def as_written(job: JobMemory, name: str, value: Choice, patient: Patient) -> str:
    """A field's value as a person must write it: where it stands, or in words that the job's reader knows."""
    item = written(job, name, patient)
    if item is not None:
        return said_as(item, name, value)
    known, kind = _reader(job, patient)
    if not known:
        return said_as(None, name, value)
    if name == "loss" and value == "chunked" and kind in _LIGER:
        return _LIGER[kind]
    if name == "method" and value in {"lora", "qlora"} and kind in _METHODS:
        return _METHODS[kind][value == "qlora"]
    if name == "parallel" and str(value).startswith("zero") and kind is not ConfigKind.DEEPSPEED:
        return say('"zero_optimization": {{"stage": {plain}}} in the DeepSpeed config', plain=plain(None, name, value))
    key = _OWN_KEYS.get((kind, name), KEYS.get(name)) if kind is not None else KEYS.get(name)
    if key is None:
        return f"{name.replace('_', ' ')}: {value}"
    if kind is None:
        return f"{key}={python(None, name, value)}"
    text = plain(None, name, value)
    if key.startswith("disable"):
        text = {"true": "false", "false": "true"}.get(text, text)
    return f"{key}: {text}"


def _reader(job: JobMemory, patient: Patient) -> tuple[bool, ConfigKind | None]:
    """Whether the job's file was read, and the kind of its reader; None for a script."""
    configs = optional(lambda: patient.configs)
    file = next((item for item in configs.files if item.path == job.title), None) if configs is not None else None
    if file is not None:
        return True, file.kind
    source = optional(lambda: patient.source)
    return source is not None and any(item.path == job.title for item in source.scripts), None


def said_as(item: Written | None, name: str, value: Choice) -> str:
    """A field's value in the words of its file: `gradient_checkpointing: false`, `optim="adamw_bnb_8bit"`."""
    key = item.key.lstrip("-") if item is not None else KEYS.get(name, name.replace("_", "-"))
    return (
        f"{key}={python(item, name, value)}"
        if item is not None and item.file is None
        else f"{key}: {plain(item, name, value)}"
    )


def plain(item: Written | None, name: str, value: Choice) -> str:
    """In a config's words."""
    if name == "checkpointing":
        on = value != "none"
        inverted = item is not None and item.key.rpartition(".")[2].startswith("disable")
        return str(on is not inverted).lower()
    if name == "parallel":
        return str(value).removeprefix("zero") if str(value).startswith("zero") else "0"
    if name == "optimizer" and value == "adamw-8bit":
        bnb = item is None or item.file is None or item.file.kind is not ConfigKind.TORCHTUNE
        return "adamw_bnb_8bit" if bnb else "bitsandbytes.optim.AdamW8bit"
    return str(value)


def python(item: Written | None, name: str, value: Choice) -> str:
    """In Python's words."""
    if name == "checkpointing":
        return str(value != "none")
    text = plain(item, name, value)
    return text if text.lstrip("-").isdigit() else f'"{text}"'


def field_edits(job: JobMemory, changes: Mapping[str, Choice], patient: Patient) -> tuple[Edit, ...]:
    """The edits that make all these changes; empty where one of them stands nowhere or is no value."""
    found: list[Edit] = []
    for name, value in changes.items():
        if job.values.get(name) == value:
            continue
        edit = _edit(job, name, value, patient)
        if edit is None:
            return ()
        found.append(edit)
    return tuple(found)


def _edit(job: JobMemory, name: str, value: Choice, patient: Patient) -> Edit | None:
    two_places = name == "offload" and (value != "none" or job.values["offload"] != "optimizer")
    item = written(job, name, patient) if name in KEYS and not two_places else None
    if item is None or not item.sure:
        return None
    text = plain(item, name, value)
    word = text not in {"true", "false"} and not text.lstrip("-").isdigit()
    return item.edit(quoted(item, text) if word else text, python=python(item, name, value))
