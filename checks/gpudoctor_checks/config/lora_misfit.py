"""CFG007: an adapter that does not fit its model, its rank or the way it is trained."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from gpudoctor.analysis.source.config_links import links
from gpudoctor.analysis.source.control_flow import bound_to, never_runs, switched_off
from gpudoctor.analysis.source.declared_settings import Written, from_entry, from_keyword
from gpudoctor.analysis.source.pretrained_models import COMMON, family, trainers
from gpudoctor.analysis.source.target_versions import meant_version
from gpudoctor.analysis.source.training_arguments import argument_calls, in_a_test
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, SourceSpan, Threshold
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Call, Known, Script, Source
from gpudoctor_checks.config.disagreement import CureDetail, sentence, settings_finding

LoraMisfitDetail = CureDetail
ALL = frozenset({"all", "all-linear", "all_linear"})
"""Words for every linear layer."""

NON_REENTRANT = 5
"""Major version of transformers from which checkpointing is not reentrant and inputs get gradients."""

GIVES_GRADIENTS = frozenset(
    {"enable_input_require_grads", "prepare_model_for_kbit_training", "prepare_model_for_int8_training",
     "make_inputs_require_grad", "register_forward_hook"}
)  # fmt: skip
"""Calls after which checkpointed blocks see inputs with gradients."""

CHECKPOINTING = "gradient_checkpointing_enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One adapter's settings, wherever they are written."""

    targets: Written | None
    rank: Written | None
    alpha: Written | None
    rslora: bool
    model: str
    """The base model's name on the hub or its path; "" when nobody says."""


class LoraMisfit(Check):
    """The adapter does not fit the model, its own scale, or the way it is trained.

    What it finds:
        - Target modules that the model's family does not have.
        - A rank of 0.
        - An alpha far from the rank.
        - PEFT with reentrant gradient checkpointing without gradients for the inputs.
        - ZeRO-3 set not to gather the weights when an adapter is saved.
    Why it hurts:
        PEFT raises an error if it finds none of the targets, and silently skips single missing ones. The update
        is scaled by alpha/rank: at 32 it diverges, at 1/16 it learns almost nothing. A checkpointed block
        without an input that requires gradients gives its adapters none, and backward raises.
    How it knows:
        It compares the names with the layer names of the model's family, identified by its name on the hub. It
        follows `get_peft_model`, checkpointing and Trainer through the script.
    False alarms:
        A model of another architecture with a family's name; an alpha tuned on purpose. gpudoctor ignores an
        adapter that the defaults disable (`if lora_rank > 0:` with a default of 0).
    Remedies:
        `target_modules="all-linear"`; alpha of one or two times the rank; `use_reentrant=False`, or
        `enable_input_require_grads()`.
    References:
        - https://huggingface.co/docs/peft/package_reference/lora
        - https://huggingface.co/docs/peft/developer_guides/troubleshooting
        - https://arxiv.org/abs/2312.03732
    """

    code = Code("CFG007")
    name = "lora-misfit"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="scale_high",
            default=16,
            unit="1",
            source="LoRA's paper and PEFT's examples: alpha is one to four times the rank",
            meaning="alpha/rank above this is a note.",
        ),
        Threshold(
            name="scale_low",
            default=0.1,
            unit="1",
            source="QLoRA's recipe, the lowest in wide use: alpha 16 at rank 64",
            meaning="alpha/rank below this is a note.",
        ),
        Threshold(
            name="rank_judged",
            default=4,
            unit="{rank}",
            source="rank 1 and 2 with alpha 32 are a published recipe (LoRA Without Regret)",
            meaning="Below this rank gpudoctor does not judge alpha/rank.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        adapters = [adapter for file in configs.files for adapter in _config(file)]
        for adapter in (*adapters, *_calls(source)):
            yield from self._targets(adapter)
            yield from self._scale(adapter)
        for link in links(patient):
            gather = link.deepspeed.get("zero_optimization.stage3_gather_16bit_weights_on_model_save")
            stage = link.deepspeed.number("zero_optimization.stage")
            if gather is not None and gather.off and stage == 3 and _is_lora(link.arguments.file, source):
                text = say("ZeRO-3 does not gather the weights when it saves, so the saved adapter is sharded, too.")
                yield settings_finding(self, text, gather, cure="gather", subject=" gather")
        if source.scripts and not _not_reentrant(patient, source.scripts[0].path):
            for place, wrap in _frozen_inputs(source):
                text = say(
                    "Gradient checkpointing is on, the base model is frozen under PEFT, so its inputs get no gradients."
                )
                yield settings_finding(self, text, place, wrap, cure="reentrant", subject=" reentrant")

    def _targets(self, adapter: Adapter) -> Iterator[Finding]:
        known, targets = family(adapter.model) if adapter.model else None, adapter.targets
        if known is None or not known.linear or targets is None or not targets.known:
            return
        names = _names(targets)
        there = known.linear | COMMON
        missing = [name for name in names if name.rpartition(".")[2] not in there and not COMMON & {*name.split(".")}]
        if missing:
            none = len(missing) == len(names)
            has_none = template("{model} ({known}) has none of the target modules: {listed}.")
            has_some = template("{model} ({known}) has no {listed}; PEFT skips them.")
            yield settings_finding(
                self,
                say(has_none if none else has_some, model=adapter.model, known=known.name, listed=", ".join(missing)),
                targets,
                severity=Severity.WARNING if none else Severity.NOTE,
                cure="targets",
                subject=" targets",
            )

    def _scale(self, adapter: Adapter) -> Iterator[Finding]:
        rank, alpha = adapter.rank, adapter.alpha
        if rank is None or rank.number is None:
            return
        if rank.number <= 0:
            text = sentence(template("{key}={shown}: the rank of an adapter is 1 or more."), "", rank)
            refuses = say("PEFT refuses the rank")
            yield settings_finding(self, text, rank, breaks=refuses, certain=rank.sure, cure="rank", subject=" rank")
            return
        if alpha is None or alpha.number is None or adapter.rslora or rank.number < self.limit("rank_judged"):
            return
        scale = alpha.number / rank.number
        if self.limit("scale_low") <= scale <= self.limit("scale_high") or alpha.number <= 0:
            return
        high = scale > self.limit("scale_high")
        text = sentence(
            template(
                "{key}={alpha} at rank {rank} scales the adapter by {scale:g}; "
                "{comparison} than {limit:g} is out of band."
            ),
            "",
            alpha,
            alpha=alpha.shown,
            rank=rank.shown,
            scale=scale,
            comparison=say("more") if high else say("less"),
            limit=self.limit("scale_high" if high else "scale_low"),
        )
        yield settings_finding(self, text, alpha, rank, severity=Severity.NOTE, cure="alpha", subject=" alpha")


def _frozen_inputs(source: Source) -> Iterator[tuple[SourceSpan, SourceSpan]]:
    """Where reentrant checkpointing is switched on under PEFT, with inputs that have no gradient: the first."""
    methods = {call.method for script in source.scripts for call in script.calls}
    roots = {name.split(".", 1)[0] for script in source.scripts for name in script.imports.values()}
    if methods & GIVES_GRADIENTS or "unsloth" in roots:
        return
    for script in source.scripts:
        enabling = [call for call in script.calls if call.method == CHECKPOINTING]
        for wrap in script.calls_to("peft.get_peft_model", "peft.mapping.get_peft_model"):
            here = [call for call in enabling if call.function == wrap.function]
            # Where checkpointing was on before, PEFT gives the inputs gradients itself.
            if switched_off(source, wrap) or any(call.span.line < wrap.span.line for call in here):
                continue
            name = bound_to(script, wrap.node)
            after = [call.span for call in here if name and call.receiver == name
                     and not switched_off(source, call) and not _says_not_reentrant(call)]  # fmt: skip
            place = next(iter(after), None) or _by_the_trainer(source, script)
            if place is not None:
                yield place, wrap.span
                return


def _by_the_trainer(source: Source, script: Script) -> SourceSpan | None:
    """Checkpointing that transformers' own Trainer switches on; TRL's trainers see to the inputs."""
    names = {call.name for _, call in trainers(source)}
    if not names or not names <= {"transformers.Trainer", "transformers.Seq2SeqTrainer"}:
        return None
    for owner, call in argument_calls(source):
        item = from_keyword(owner, call, "gradient_checkpointing")
        if item is not None and item.on and item.sure and not _says_not_reentrant(call):
            place = item.place
            return place if owner is script and isinstance(place, SourceSpan) else call.span
    return None


def _says_not_reentrant(call: Call) -> bool:
    """Whether the call is given `use_reentrant`, or anything that may hold it."""
    passed = bool(call.positional) and call.method == CHECKPOINTING
    return passed or call.open_ended or "gradient_checkpointing_kwargs" in call.keywords


def _not_reentrant(patient: Patient, path: str) -> bool:
    """Whether the transformers that a script is written for checkpoints without reentry."""
    version = meant_version(patient, "transformers", path).version
    try:
        return version is not None and Version(version).major >= NON_REENTRANT
    except InvalidVersion:
        return False


def _names(targets: Written) -> list[str]:
    """Module names that are plain words; none for a pattern or a word for all of them."""
    value = targets.value
    if isinstance(value, tuple):
        items = [str(item) for item in value]
    elif isinstance(value, str) and "," in value:
        items = [part.strip() for part in value.split(",")]
    elif isinstance(value, str) and targets.file is not None and targets.file.kind is ConfigKind.LLAMA_FACTORY:
        items = [value]
    else:
        return []  # one string is a pattern for PEFT
    if set(items) & ALL or any(re.search(r"[*()\[\]|\\^$+?]", item) for item in items):
        return []
    return [item for item in items if item]


def _config(file: ConfigFile) -> Iterator[Adapter]:
    if not file.kind.trains or file.kind is ConfigKind.TORCHTUNE:
        return  # torchtune has names of its own, and checks them
    targets, ranks, alphas = (file.meaning(name) for name in ("lora_targets", "lora_r", "lora_alpha"))
    if not (targets or ranks) or max(len(targets), len(ranks), len(alphas)) > 1:
        return
    if file.kind is ConfigKind.LLAMA_FACTORY and file.value("finetuning_type") not in {"lora", None}:
        return
    if file.kind is ConfigKind.AXOLOTL and file.value("adapter") not in {"lora", "qlora"}:
        return
    written = [from_entry(file, items[0].entry) if items else None for items in (targets, ranks, alphas)]
    models = file.meaning("model")
    yield Adapter(
        targets=written[0],
        rank=written[1],
        alpha=written[2],
        rslora=any(entry.value is True for entry in file.find("use_rslora", "peft_use_rslora", "lora_use_rslora")),
        model=str(models[0].value) if len(models) == 1 else "",
    )


def _calls(source: Source) -> Iterator[Adapter]:
    model = _model(source)
    for script in source.scripts:
        for call in script.calls:
            if (
                call.method != "LoraConfig"
                or call.name.split(".", 1)[0] not in {"peft", "trl"}
                or in_a_test(call)
                or never_runs(source, call)
            ):
                continue
            rslora = call.keywords.get("use_rslora")
            yield Adapter(
                targets=from_keyword(script, call, "target_modules"),
                rank=from_keyword(script, call, "r"),
                alpha=from_keyword(script, call, "lora_alpha"),
                rslora=rslora is not None and not (isinstance(rslora, Known) and not rslora.value),
                model=model,
            )


def _model(source: Source) -> str:
    """The only pretrained model of the program; "" when there are several or its name is computed."""
    names: set[str] = set()
    for script in source.scripts:
        for call in script.calls:
            if call.method != "from_pretrained" or "Model" not in call.name:
                continue
            given = call.argument("pretrained_model_name_or_path", 0)
            names.add(str(given.value) if isinstance(given, Known) else "")
    return names.pop() if len(names) == 1 else ""


def _is_lora(file: ConfigFile | None, source: Source) -> bool:
    if file is not None:
        return any(
            str(file.value(key)) in {"lora", "qlora", "True"} for key in ("finetuning_type", "adapter", "use_peft")
        )
    return any(next(script.calls_to(".get_peft_model"), None) for script in source.scripts)
