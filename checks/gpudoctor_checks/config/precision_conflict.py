"""CFG001: mixed precision is declared twice, and the two disagree."""

from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor.analysis.source.config_links import links
from gpudoctor.analysis.source.declared_settings import Setup, from_entry, from_keyword
from gpudoctor.analysis.source.pretrained_models import trained_models
from gpudoctor.analysis.source.training_arguments import argument_calls, deepspeed_configs, training_arguments
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Source
from gpudoctor_checks.config.disagreement import PRECISION, REFUSED, Mismatch, mismatches, sentence, settings_finding

HALF = {"float16": "fp16", "half": "fp16", "fp16": "fp16", "bfloat16": "bf16", "bf16": "bf16"}
"""A dtype's names and the switch of the training arguments that it goes with."""


class _Row(NamedTuple):
    """What is said of a model and the switch that it is trained with."""

    text: str
    cure: str
    hurt: str = ""


ACCELERATE = template(
    "{path} says mixed_precision={value} and names a DeepSpeed config, {deepspeed_config}, which must set it."
)
_SCALED = template("The model is loaded in {word} and trained with fp16=True, whose scaler {hurt}.")
MODELS: dict[tuple[str | None, str], _Row] = {
    ("fp16", "fp16"): _Row(_SCALED, "load", hurt=say("cannot unscale fp16 gradients")),
    ("bf16", "fp16"): _Row(_SCALED, "none", hurt=say("scales gradients without need in bf16")),
    ("fp16", "bf16"): _Row(
        template("The model is loaded in {word} and trained with bf16=True: its gradients are fp16, without a scaler."),
        "load-bf16",
    ),
}
"""A model's dtype and the switch that it is trained with."""


class PrecisionConflict(Check):
    """Mixed precision is declared in two places that disagree.

    What it finds:
        - `fp16` and `bf16` both on in one set of training arguments or one DeepSpeed config.
        - DeepSpeed's fp16 or bf16 against the training arguments'.
        - `mixed_precision` in an accelerate config that also names a DeepSpeed file.
        - A model loaded in one half precision and trained in the other.
    Why it hurts:
        Most of these stop the run when it starts. The others scale the loss twice, or train in an unintended
        precision. Gradients in fp16 without a scaler underflow to zero.
    How it knows:
        It reads the switches of all linked files and the arguments of the calls in the script. "auto" is
        resolved to the training arguments. What the readers of these files refuse is an error; the rest is a
        warning.
    False alarms:
        A wrapper that rewrites one of the files before the run.
    Remedies:
        Keep one: bf16 on cards that have it (Ampere and later), and "auto" in the DeepSpeed config.
    References:
        - https://huggingface.co/docs/transformers/deepspeed
        - https://www.deepspeed.ai/docs/config-json/#fp16-training-options
        - https://huggingface.co/docs/accelerate/usage_guides/deepspeed
    """

    code = Code("CFG001")
    name = "precision-conflict"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        for setup in training_arguments(patient):
            yield from self._both(setup)
        for setup in deepspeed_configs(patient):
            yield from self._engine(setup)
        for link in links(patient):
            if link.arguments.on("fp16") and link.arguments.on("bf16"):
                continue  # said already
            both = list(mismatches(link, PRECISION))
            if both:
                yield self._between(both)
        for file in configs.files:
            yield from self._in_file(file)
        yield from self._models(source)

    def _both(self, setup: Setup) -> Iterator[Finding]:
        fp16, bf16 = setup.on("fp16"), setup.on("bf16", "pure_bf16")
        if fp16 is None or bf16 is None:
            return
        ignored = setup.kind is ConfigKind.AXOLOTL
        refused = setup.kind is not ConfigKind.SECTIONS and not ignored and "pure_bf16" not in bf16.key
        end = say("; axolotl takes bf16 and ignores the other.") if ignored else "."
        yield settings_finding(
            self,
            sentence(template("{config} switches on {key} and {other_key}"), setup.title, fp16, bf16) + end,
            fp16,
            bf16,
            breaks=say("transformers refuses both at once"),
            certain=refused and fp16.sure and bf16.sure,
            cure="fp16-off",
        )

    def _engine(self, setup: Setup) -> Iterator[Finding]:
        fp16, bf16 = setup.on("fp16.enabled"), setup.on("bf16.enabled", "bfloat16.enabled")
        if fp16 is not None and bf16 is not None:
            text = sentence(template("{config} switches on {key} and {other_key}."), setup.title, fp16, bf16)
            refuses = say("DeepSpeed refuses both at once")
            yield settings_finding(self, text, fp16, bf16, breaks=refuses, cure="fp16-off")

    def _between(self, both: list[Mismatch]) -> Finding:
        """One finding for a pair of files: fp16 here and bf16 there is one conflict."""
        both = sorted(both, key=lambda item: not item.engine.on)
        first, certain = both[0], all(item.certain for item in both)
        items = [part for item in both for part in (item.engine, item.argument)]
        if len(both) == 1 and first.argument is None and first.engine.on:
            # The half precision that the arguments switch on instead of DeepSpeed's is all that differs.
            other = first.link.arguments.on("bf16" if first.name == "fp16" else "fp16")
            if other is not None:
                text = sentence(
                    template("{config} says {key}={value}, {arguments} says {other_key}={other_value}."),
                    first.link.deepspeed.title,
                    first.engine,
                    other,
                    arguments=first.link.arguments.title,
                )
                certain = certain and other.sure
                return settings_finding(self, text, first.engine, other, breaks=REFUSED, certain=certain, cure="auto")
        told = len(both) == 2 and all(item.argument is not None for item in both)
        text = first.sentence if told else concatenated("; ", [item.sentence for item in both])
        text = say("{sentence}.", sentence=text)
        return settings_finding(self, text, *items, breaks=REFUSED, certain=certain, cure="auto")

    def _in_file(self, file: ConfigFile) -> Iterator[Finding]:
        named = file.entries.get("deepspeed_config.deepspeed_config_file")
        mixed = file.entries.get("mixed_precision")
        engine = file.kind is ConfigKind.ACCELERATE and file.value("distributed_type") == "DEEPSPEED"
        if engine and named is not None and named.value and mixed is not None and mixed.value is not None:
            item, other = from_entry(file, mixed), from_entry(file, named)
            text = sentence(ACCELERATE, file.path, item, deepspeed_config=other.shown)
            refuses = say("accelerate refuses the setting beside deepspeed_config_file")
            yield settings_finding(self, text, item, other, breaks=refuses, cure="drop")

    def _models(self, source: Source) -> Iterator[Finding]:
        """A model loaded in one half precision and trained in the other, or in fp16 with fp16's scaler."""
        calls = list(argument_calls(source))
        for owner, load in trained_models(source) if len(calls) == 1 else ():
            dtype = from_keyword(owner, load, "torch_dtype") or from_keyword(owner, load, "dtype")
            loaded = HALF.get(dtype.word) if dtype is not None and dtype.sure else None
            switches = [from_keyword(*calls[0], name) for name in ("fp16", "bf16")]
            trained = next((item for item in switches if item is not None and item.on and item.sure), None)
            row = MODELS.get((loaded, trained.key)) if trained is not None else None
            if dtype is not None and row is not None:
                text = sentence(row.text, "", dtype, word=dtype.word, hurt=row.hurt)
                yield settings_finding(self, text, dtype, trained, cure=row.cure)
