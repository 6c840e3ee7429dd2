"""CFG007: an adapter that does not fit its model, its rank or the way it is trained."""

import re
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import never_runs
from gpudoctor.analysis.source.declared_settings import Written, from_entry, from_keyword
from gpudoctor.analysis.source.pretrained_models import COMMON, family
from gpudoctor.analysis.source.training_arguments import in_a_test
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Known, Source
from gpudoctor_checks.config.disagreement import sentence, settings_finding

ALL = frozenset({"all", "all-linear", "all_linear"})
"""Words for every linear layer."""


@frozen
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
    Why it hurts:
        PEFT raises an error if it finds none of the targets, and silently skips single missing ones. The update
        is scaled by alpha/rank: at 32 it diverges, at 1/16 it learns almost nothing.
    How it knows:
        It compares the names with the layer names of the model's family, identified by its name on the hub.
    False alarms:
        A model of another architecture with a family's name; an alpha tuned on purpose. gpudoctor ignores an
        adapter that the defaults disable (`if lora_rank > 0:` with a default of 0).
    Remedies:
        `target_modules="all-linear"`; alpha of one or two times the rank.
    References:
        - https://huggingface.co/docs/peft/package_reference/lora
        - https://huggingface.co/docs/peft/developer_guides/troubleshooting
    """

    code = "CFG007"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE})
    thresholds = (
        Threshold("scale_high", 16, "1", "LoRA's paper and PEFT's examples: alpha is one to four times the rank",
                  "alpha/rank above this is a note."),
        Threshold("scale_low", 0.1, "1", "QLoRA's recipe, the lowest in wide use: alpha 16 at rank 64",
                  "alpha/rank below this is a note."),
        Threshold("rank_judged", 4, "{rank}", "rank 1 and 2 with alpha 32 are a published recipe (LoRA Without Regret)",
                  "Below this rank gpudoctor does not judge alpha/rank."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        adapters = [adapter for file in configs.files for adapter in _config(file)]
        for adapter in (*adapters, *_calls(source)):
            yield from self._targets(adapter)
            yield from self._scale(adapter)

    def _targets(self, adapter: Adapter) -> Iterator[Finding]:
        known, targets = family(adapter.model) if adapter.model else None, adapter.targets
        if known is None or not known.linear or targets is None or not targets.known:
            return
        names = _names(targets)
        there = known.linear | COMMON
        missing = [name for name in names if name.rpartition(".")[2] not in there and not COMMON & {*name.split(".")}]
        if missing:
            none = len(missing) == len(names)
            yield settings_finding(
                self,
                say(
                    "{model} ({known}) does not have these target modules: {listed}.",
                    model=adapter.model,
                    known=known.name,
                    listed=", ".join(missing),
                ),
                targets,
                breaks=say("PEFT refuses an adapter without a target") if none else "",
                certain=targets.sure,
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
        text = sentence(
            template("{key}={alpha} at rank {rank} scales the adapter by {scale:g}, which is out of band."),
            "",
            alpha,
            alpha=alpha.shown,
            rank=rank.shown,
            scale=scale,
        )
        yield settings_finding(self, text, alpha, rank, severity=Severity.NOTE, cure="alpha", subject=" alpha")


def _names(targets: Written) -> list[str]:
    """Module names that are plain words; none for a pattern or a word for all of them."""
    value, factory = targets.value, targets.file is not None and targets.file.kind is ConfigKind.LLAMA_FACTORY
    if isinstance(value, str) and not factory and "," not in value:
        return []  # one string is a pattern for PEFT
    items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    names = [str(item) for item in items] if isinstance(items, list | tuple) else []
    if set(names) & ALL or any(re.search(r"[*()\[\]|\\^$+?]", item) for item in names):
        return []
    return [item for item in names if item]


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
            ours = call.method == "LoraConfig" and call.name.split(".", 1)[0] in {"peft", "trl"}
            if ours and not in_a_test(call) and not never_runs(source, call):
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
