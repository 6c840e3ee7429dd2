"""The settings of a job by tool: training arguments and DeepSpeed configs, wherever they are written."""

import re
from collections.abc import Iterator

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.built_classes import built, imports_any
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.declared_settings import Setup, Written, base_name, from_entry, from_keyword
from gpudoctor.analysis.source.syntax import words
from gpudoctor.model.evidence import Setting
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.job import Launch
from gpudoctor.model.signs.source import Call, Script, Source
from gpudoctor.model.unavailable import optional

TRAINING_ARGUMENTS = frozenset({"TrainingArguments", "Seq2SeqTrainingArguments"})
"""The classes of transformers whose defaults are the documented ones."""

EXTENDED = words(
    "SFTConfig DPOConfig GRPOConfig PPOConfig KTOConfig ORPOConfig CPOConfig RewardConfig RLOOConfig PRMConfig "
    "BCOConfig GKDConfig OnlineDPOConfig NashMDConfig XPOConfig SentenceTransformerTrainingArguments "
    "UnslothTrainingArguments GaudiTrainingArguments ORTTrainingArguments"
)
"""Classes that extend them, with defaults of their own."""

HF_ROOTS = frozenset({"transformers", "trl", "sentence_transformers", "unsloth", "optimum"})
"""Libraries whose argument classes are, or extend, those of transformers."""

_AXOLOTL = {
    "micro_batch_size": "per_device_train_batch_size",
    "num_epochs": "num_train_epochs",
    "optimizer": "optim",
    "lr_scheduler": "lr_scheduler_type",
    "bfloat16": "bf16",
    "float16": "fp16",
}
"""axolotl's words for the training arguments that it passes on."""

_STRONG = words(
    "per_device_train_batch_size per_gpu_train_batch_size num_train_epochs lr_scheduler_type warmup_ratio "
    "evaluation_strategy eval_strategy save_strategy dataloader_num_workers gradient_checkpointing_kwargs "
    "per_device_eval_batch_size"
)
"""Names that only training arguments have: a section with two of them holds them."""


@once
def training_arguments(patient: Patient) -> list[Setup]:
    """Every set of training arguments: files, sections of files, calls in source, launch lines."""
    found: list[Setup] = []
    configs = optional(lambda: patient.configs)
    source = optional(lambda: patient.source)
    for file in configs.files if configs is not None else ():
        if read_by(file.kind, source):
            found += _arguments_of(file)
    if source is not None:
        found += [_call_setup(script, call) for script, call in argument_calls(source)]
    job = optional(lambda: patient.job)
    for launch in job.launches if job is not None else ():
        setup = _launch_setup(launch, job.script_path if job is not None else None)
        if setup is not None:
            found.append(setup)
    return found


def argument_calls(source: Source) -> Iterator[tuple[Script, Call]]:
    """Calls that build training arguments, of a subclass too, in the ordinary course of a script."""
    for script in source.scripts:
        for call in script.calls:
            likely = call.method[:1].isupper() or call.method in TRAINING_ARGUMENTS | EXTENDED
            own = likely and call.name.startswith(("self.", "cls.", "super."))
            if likely and not own and arguments_class(call) and not switched_off(source, call):
                yield script, call


def arguments_class(call: Call) -> str:
    """The library's class of training arguments that a call builds or extends; "" for another call."""
    return built(call).of(HF_ROOTS, TRAINING_ARGUMENTS | EXTENDED)


def of_arguments(name: str) -> bool:
    """Whether a dotted name is that of a library's class of training arguments."""
    return name.partition(".")[0] in HF_ROOTS and name.rpartition(".")[2] in TRAINING_ARGUMENTS | EXTENDED


def in_a_test(call: Call) -> bool:
    """Whether a call stands in a unit test: its settings are those of no run."""
    parts = [*call.function.lower().split("."), base_name(call.span.path).lower()]
    return any(re.match(r"test(_|[a-z]*tests?$|er$|case)|.*_test\.py$", part) for part in parts)


def _arguments_of(file: ConfigFile) -> Iterator[Setup]:
    kind = file.kind
    if kind in {ConfigKind.HUGGINGFACE, ConfigKind.LLAMA_FACTORY, ConfigKind.AXOLOTL}:
        renamed = _AXOLOTL if kind is ConfigKind.AXOLOTL else {}
        items = {
            renamed.get(entry.key, entry.key): from_entry(file, entry)
            for entry in file.entries.values()
            if len(entry.parts) == 1
        }
        yield Setup.of_file(file, items, whole=kind is ConfigKind.LLAMA_FACTORY)
    elif kind is ConfigKind.SECTIONS:
        # Sections of somebody's own config that hold training arguments under their own names.
        groups: dict[str, dict[str, Written]] = {}
        for entry in file.entries.values():
            groups.setdefault(".".join(entry.parts[:-1]), {})[entry.last] = from_entry(file, entry)
        for prefix, items in groups.items():
            if len(_STRONG & items.keys()) >= 2:
                yield Setup.of_file(file, items, prefix)


def _call_setup(script: Script, call: Call) -> Setup:
    own = built(call).declared
    items = {
        name: item
        for name in call.keywords
        if name not in own and (item := from_keyword(script, call, name)) is not None
    }
    # A subclass may have defaults of its own.
    documented = call.name.startswith("transformers.") and call.method in TRAINING_ARGUMENTS
    whole = documented and not call.open_ended
    return Setup.of_call(script, call, arguments_class(call), items, whole=whole)


READERS = {
    ConfigKind.HUGGINGFACE: HF_ROOTS | {"llamafactory", "axolotl", "accelerate", "peft", "hydra", "omegaconf"},
    ConfigKind.LIGHTNING: frozenset({"lightning", "pytorch_lightning", "lightning_fabric", "jsonargparse", "hydra"}),
}
"""Kinds of config that other programs' words look like, and the libraries that may hand one to its reader."""


_PARSERS = frozenset({"yaml", "json", "toml", "tomllib", "tomli", "ruamel", "configparser"})


def read_by(kind: ConfigKind, source: Source | None) -> bool:
    """Whether a config may be read by the tool that its keys name: a program that never imports the tool reads
    the file itself, if it trains or parses files at all. Without a program anything may."""
    readers = READERS.get(kind)
    if readers is None or source is None or imports_any(source, readers):
        return True
    return not source.trains and not imports_any(source, _PARSERS)


def _launch_setup(launch: Launch, path: str | None) -> Setup | None:
    """Training arguments given as words of a launch line."""
    words = option_words(launch.arguments)
    if not (_STRONG | {"deepspeed", "output_dir", "bf16", "fp16"}) & words.keys():
        return None
    where = launch.path or path or "the launch line"
    items = {
        name: Written(
            key=f"--{name}",
            value=_typed(text),
            known=not any(mark in text for mark in "$`"),
            sure=True,
            at=Setting(key=f"--{name}", value=text or "True", origin=where, path=launch.path or path, line=launch.line),
        )
        for name, text in words.items()
    }
    return Setup(
        kind=None,
        path=where,
        line=launch.line or 1,
        title=f"{base_name(where)}:{launch.line}" if launch.line else base_name(where),
        items=items,
    )


def option_words(arguments: tuple[str, ...]) -> dict[str, str]:
    """`--name value`, `--name=value` and bare `--switch` of a command line; names with underscores."""
    found: dict[str, str] = {}
    name = ""
    for word in arguments:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            name = name.replace("-", "_")
            found[name] = value
        elif name and not found[name]:
            found[name] = word
    return found


def _typed(text: str) -> int | float | str | bool:
    if text == "":
        return True
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text


@once
def deepspeed_configs(patient: Patient) -> list[Setup]:
    """Every DeepSpeed config."""
    configs = optional(lambda: patient.configs)
    return [
        Setup.of_file(file, {key: from_entry(file, entry) for key, entry in file.entries.items()})
        for file in (configs.files if configs is not None else ())
        if file.kind is ConfigKind.DEEPSPEED
    ]
