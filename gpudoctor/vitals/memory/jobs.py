"""The jobs whose memory can be told: what scripts, configs and command lines say of each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpudoctor.analysis.source.config_links import launched_accelerate, links
from gpudoctor.analysis.source.training_arguments import training_arguments
from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model import Patient
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.unavailable import optional
from gpudoctor.vitals.memory.from_config import ATTENTION, LIGER, DeclaredJob, known_optimizer, read_config
from gpudoctor.vitals.memory.from_script import Undeclared, read_script

if TYPE_CHECKING:
    from gpudoctor.analysis.source.declared_settings import Setup

# From training arguments in a script or on a launch line to the fields of a job.

_COUNTS = {
    "per_device_train_batch_size": "batch",
    "per_gpu_train_batch_size": "batch",
    "gradient_accumulation_steps": "accumulate",
    "max_seq_length": "seq",
    "max_length": "seq",
    "block_size": "seq",
    "model_max_length": "seq",
    "cutoff_len": "seq",
    "lora_r": "lora_rank",
    "lora_rank": "lora_rank",
}
_DEFAULTS = {"batch": 8, "accumulate": 1, "checkpointing": "none", "mixed_precision": "no"}
"""transformers' own (TrainingArguments)."""
SPEAKS = frozenset({*_COUNTS, "gradient_checkpointing", "bf16", "fp16", "optim", "fsdp", *LIGER})
"""Arguments that this reader knows."""


def read_arguments(setup: "Setup", told: DeclaredJob) -> None:
    """Add what training arguments say; where nothing else can be set, transformers' default holds."""
    for key, name in _COUNTS.items():
        item = setup.get(key)
        number = item.number if item is not None else None
        if item is not None and isinstance(number, int) and number > 0:
            told.tell(name, number, item.place)
    item = setup.get("gradient_checkpointing", "activation_checkpointing")
    if item is not None and (item.on or item.off):
        told.tell("checkpointing", "layer" if item.on else "none", item.place)
    for name in ("bf16", "fp16"):
        item = setup.get(name)
        if item is not None and item.on:
            told.tell("mixed_precision", name, item.place)
    _words(setup, told)
    for name, value in _DEFAULTS.items():
        if name not in told.fields:
            told.fields[name] = value
            if not setup.whole or _written_unknown(setup, name):
                told.guessed.add(name)


def _written_unknown(setup: "Setup", name: str) -> bool:
    keys = [key for key, meant in _COUNTS.items() if meant == name]
    keys += ["gradient_checkpointing"] if name == "checkpointing" else []
    keys += ["bf16", "fp16"] if name == "mixed_precision" else []
    return any(key in setup.items for key in keys)


def _words(setup: "Setup", told: DeclaredJob) -> None:
    """Optimizer, attention, sharding, fused kernels."""
    optimizer = setup.get("optim")
    if optimizer is not None and optimizer.word:
        found = known_optimizer(optimizer.word)
        if found is not None:
            told.tell("optimizer", found, optimizer.place)
    attention = setup.get("attn_implementation")
    if attention is not None and ATTENTION.get(attention.word):
        told.fields["attention"] = ATTENTION[attention.word]
    fsdp = setup.get("fsdp")
    if fsdp is not None and fsdp.known and fsdp.value not in (None, "", False, ()):
        told.tell("parallel", "fsdp", fsdp.place)
        if "offload" in str(fsdp.value):
            told.tell("offload", "params", fsdp.place)
    if setup.on(*LIGER) is not None:
        told.fields |= {"loss": "chunked", "fused_norm": True}
    if setup.on("torch_compile") is not None:
        told.fields["compiled"] = True


_ENGINES = frozenset({ConfigKind.DEEPSPEED, ConfigKind.ACCELERATE, ConfigKind.FSDP})
_STEPS = ("learning_rate", "epochs", "max_steps", "optimizer", "gradient_accumulation")
_OBJECTIVES = frozenset({"sft", "pt", "1", "2", "3"})
"""Objectives with one sequence a row and one model; a number under `stage` is ZeRO's."""
_OTHERS = frozenset(
    {
        "use_galore",
        "use_apollo",
        "use_badam",
        "use_adam_mini",
        "use_muon",
        "use_kt",
        "mixture_of_depths",
        "lisa_n_layers",
        "unfrozen_parameters",
        "relora_steps",
        "relora",
        "optim_target_modules",
        "reward_model",
        "process_reward_model",
        "num_labels",
        "sequence_parallel_degree",
        "context_parallel_size",
        "tiled_mlp",
        "use_unsloth",
        "unsloth",
        "freeze_mm_modules",
        "quantize_moe_experts",
        "layer_offloading",
        "activation_offloading",
    }
)
"""Switches that change what is kept in memory in ways that have no formula here."""
_SHARDS = re.compile(
    r"fsdp|deepspeed|zero[-_ ]?[123]\b|distributed|megatron|multi[-_ ]?(?:gpu|node)|offload|ktransformers"
    r"|(?:tensor|expert|pipeline|context)[-_ ]?parallel|dp_shard|nproc",
    re.IGNORECASE,
)
"""Words, in comments too, that say that weights are not all on one GPU."""
_PARTS = frozenset({ConfigKind.PEFT, ConfigKind.QUANTISATION})


@dataclass(slots=True, kw_only=True)
class ToldJob:
    """One run, as far as anything says it."""

    title: str
    told: DeclaredJob
    engine: bool = False
    """Whether a DeepSpeed or accelerate config is part of it."""


@dataclass(slots=True)
class Jobs:
    """The runs of a patient, and why others are not among them."""

    found: list[ToldJob] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def jobs_of(patient: Patient) -> Jobs:
    """Every run that can be told: one for each training config that names a model, one for the scripts."""
    jobs = Jobs()
    for file in _main_configs(patient):
        told = DeclaredJob()
        try:
            # It configures a run that steps: no generation, evaluation, quantisation or merge.
            if not any(file.meaning(name) for name in _STEPS) or file.value("do_train") is False:
                raise Undeclared("{path} trains nothing", path=file.path)
            read_config(file, told)
            engine = _engines(patient, told, file=file)
            _refuse_unknown(file, told)
        except (Undeclared, UsageError) as error:
            jobs.reasons.append(str(error))
            continue
        if told.model is None:
            jobs.reasons.append(say("{path} names no model", path=file.path))
            continue
        jobs.found.append(ToldJob(title=file.path, told=told, engine=engine))
    if not jobs.found:
        _scripted(patient, jobs)
    return jobs


def _main_configs(patient: Patient) -> Iterator[ConfigFile]:
    configs = optional(lambda: patient.configs)
    for file in configs.files if configs is not None else ():
        if file.kind.trains and file.kind not in _ENGINES | _PARTS and file.meaning("model"):
            yield file


def _refuse_unknown(file: ConfigFile, told: DeclaredJob) -> None:
    """Raise `Undeclared` for what the estimator has no formula for, or that another file decides."""
    objective = next((str(file.value(key)) for key in ("stage", "rl") if file.value(key)), "sft")
    if objective not in _OBJECTIVES:
        raise Undeclared(
            "{path}: {objective} trains on pairs or with a second model, which estimate does not support",
            path=file.path,
            objective=objective,
        )
    if {"method", "optimizer"} & told.guessed:
        raise Undeclared(told.assumptions[-1])
    other = next((entry for entry in file.entries.values() if entry.last in _OTHERS and entry.value), None)
    if other is not None:
        raise Undeclared("{path}: {key} is not a setting that estimate supports", path=file.path, key=other.key)
    engine = [item.value for item in file.meaning("deepspeed_config")]
    if "parallel" not in told.fields and (engine or _SHARDS.search(file.path + "\n" + file.text)):
        raise Undeclared("{path} mentions sharding or offloading, but no given config has its settings", path=file.path)


def _engines(
    patient: Patient, told: DeclaredJob, *, file: ConfigFile | None = None, setup: "Setup | None" = None
) -> bool:
    """Add the DeepSpeed and accelerate configs that belong to training arguments."""
    found = False
    for link in links(patient):
        mine = (file is not None and link.arguments.file is file) or link.arguments is setup
        if mine and link.deepspeed.file is not None and link.deepspeed.kind is ConfigKind.DEEPSPEED:
            read_config(link.deepspeed.file, told)
            found = True
    job = optional(lambda: patient.job)
    for launch in job.launches if job is not None else ():
        accelerate = launched_accelerate(patient, launch)
        if accelerate is not None:
            read_config(accelerate, told)
            found = True
    return found


def _scripted(patient: Patient, jobs: Jobs) -> None:
    """The run of the scripts, with the training arguments that they or a launch line give."""
    source = optional(lambda: patient.source)
    if source is None:
        return
    setups = [item for item in training_arguments(patient) if SPEAKS & item.items.keys()]
    setups = [item for item in setups if item.file is None or item.kind is not None]
    if len(setups) > 2:
        jobs.reasons.append(
            say("{setups} sets of training arguments, and gpudoctor cannot tell which one is used", setups=len(setups))
        )
        return
    told = DeclaredJob()
    for setup in setups:  # a launch line stands after a call
        model = setup.get("model_name_or_path")
        if model is not None and model.known and isinstance(model.value, str):
            told.model, told.places["model"] = model.value, model.place
    try:
        read_script(source, told)
        for setup in setups:
            read_arguments(setup, told)
        engines = [_engines(patient, told, setup=setup) for setup in setups]
    except (Undeclared, UsageError) as reason:
        jobs.reasons.append(str(reason))
        return
    jobs.found.append(ToldJob(title=source.scripts[0].path, told=told, engine=any(engines)))
