"""CFG001: mixed precision is declared twice, and the two disagree."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.config_links import links
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.declared_settings import Setup, Written, from_entry, from_keyword
from gpudoctor.analysis.source.pretrained_models import trained_models
from gpudoctor.analysis.source.training_arguments import argument_calls, deepspeed_configs, training_arguments
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    Patient,
    Reads,
    Setting,
    Severity,
    SourceSpan,
)
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Call, Script, Source
from gpudoctor_checks.config.matching import PRECISION, Mismatch, mismatches

HALF = {"float16": "fp16", "half": "fp16", "fp16": "fp16", "bfloat16": "bf16", "bf16": "bf16"}
"""A dtype's names and the switch of the training arguments that it goes with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionConflictDetail(Detail):
    """What the rule reads."""

    cure: str
    """A word for what helps; the rule has them."""


class PrecisionConflict(Check):
    """Mixed precision is declared in two places that disagree.

    What it finds:
        - `fp16` and `bf16` both on in one set of training arguments or one DeepSpeed config.
        - DeepSpeed's fp16 or bf16 against the training arguments'.
        - AMP together with DeepSpeed's own mixed precision, in a config (`amp`) or in the script (GradScaler
          around an engine).
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
        - A wrapper that rewrites one of the files before the run.
        - Sections of your own config whose script prefers one switch on purpose.
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
            yield from self._accelerate(file)
            yield from self._sections(file)
        yield from self._scalers(source)
        yield from self._models(source)

    def _both(self, setup: Setup) -> Iterator[Finding]:
        fp16, bf16 = setup.on("fp16"), setup.on("bf16", "pure_bf16")
        if fp16 is None or bf16 is None:
            return
        ignored = setup.kind is ConfigKind.AXOLOTL
        refused = setup.kind is not ConfigKind.SECTIONS and not ignored and "pure_bf16" not in bf16.key
        yield self._found(
            say("{config} switches on {key} and {other_key}", config=setup.title, key=fp16.key, other_key=bf16.key)
            + (say("; axolotl takes bf16 and ignores the other.") if ignored else "."),
            (fp16, bf16),
            breaks=say("transformers refuses both at once") if refused else "",
            certain=refused and fp16.sure and bf16.sure,
            cure="fp16-off",
        )

    def _engine(self, setup: Setup) -> Iterator[Finding]:
        fp16, bf16 = setup.on("fp16.enabled"), setup.on("bf16.enabled", "bfloat16.enabled")
        amp, stage = setup.on("amp.enabled"), setup.get("zero_optimization.stage")
        if fp16 is not None and bf16 is not None:
            yield self._found(
                say(
                    "{config} switches on {key} and {other_key}.", config=setup.title, key=fp16.key, other_key=bf16.key
                ),
                (fp16, bf16),
                breaks=say("DeepSpeed refuses both at once"),
                cure="fp16-off",
            )
        other = fp16 or bf16
        if amp is not None and other is not None:
            yield self._found(
                say(
                    "{config} switches on {key} (Apex AMP) and {other_key}.",
                    config=setup.title,
                    key=amp.key,
                    other_key=other.key,
                ),
                (amp, other),
                breaks=say("DeepSpeed cannot enable AMP with its own fp16 or bf16"),
                cure="amp-off",
            )
        elif amp is not None and stage is not None and (stage.number or 0) >= 1:
            yield self._found(
                say(
                    "{title} switches on {key} (Apex AMP) with ZeRO stage {shown}.",
                    title=setup.title,
                    key=amp.key,
                    shown=stage.shown,
                ),
                (amp, stage),
                breaks=say("DeepSpeed cannot use AMP with ZeRO"),
                cure="amp-to-bf16",
            )

    def _between(self, both: list[Mismatch]) -> Finding:
        """One finding for a pair of files: fp16 here and bf16 there is one conflict."""
        both = sorted(both, key=lambda item: not item.engine.on)
        certain = all(item.certain for item in both)
        others = _other_half(both)
        if others is not None:
            return self._found(
                say(
                    "{config} says {key}={value}, {arguments} says {other_key}={other_value}.",
                    config=both[0].link.deepspeed.title,
                    key=both[0].engine.key,
                    value=both[0].engine.shown,
                    arguments=both[0].link.arguments.title,
                    other_key=others.key,
                    other_value=others.shown,
                ),
                (both[0].engine, others),
                breaks=say("transformers refuses the mismatch when the run starts"),
                certain=certain and others.sure,
                cure="auto",
            )
        if len(both) == 2 and all(item.argument is not None for item in both):
            text = both[0].sentence
        else:
            text = concatenated("; ", [item.sentence for item in both])
        return self._found(
            say("{sentence}.", sentence=text),
            tuple(part for item in both for part in (item.engine, item.argument) if part is not None),
            breaks=say("transformers refuses the mismatch when the run starts"),
            certain=certain,
            cure="auto",
        )

    def _accelerate(self, file: ConfigFile) -> Iterator[Finding]:
        if file.kind is not ConfigKind.ACCELERATE or file.value("distributed_type") != "DEEPSPEED":
            return
        named = file.entries.get("deepspeed_config.deepspeed_config_file")
        mixed = file.entries.get("mixed_precision")
        if named is None or not named.value or mixed is None or mixed.value is None:
            return
        item, other = from_entry(file, mixed), from_entry(file, named)
        yield self._found(
            say(
                "{path} says mixed_precision={value} and names a DeepSpeed config, {deepspeed_config}, "
                "which must set it.",
                path=file.path,
                value=item.shown,
                deepspeed_config=other.shown,
            ),
            (item, other),
            breaks=say("accelerate refuses the setting beside deepspeed_config_file"),
            cure="drop",
        )

    def _sections(self, file: ConfigFile) -> Iterator[Finding]:
        """Somebody's own config: AMP beside DeepSpeed's precision, both halves in one section."""
        if file.kind is not ConfigKind.SECTIONS:
            return
        halves = {
            name: [
                from_entry(file, item.entry)
                for item in file.meaning(name)
                if item.value is True and "eval" not in item.entry.key.lower()
            ]
            for name in ("fp16", "bf16", "amp")
        }
        engine = {
            name: [item for item in items if "deepspeed" in item.key.lower() or item.key.lower().startswith("ds")]
            for name, items in halves.items()
        }
        own = {name: [item for item in items if item not in engine[name]] for name, items in halves.items()}
        for fp16 in own["fp16"]:
            for bf16 in own["bf16"]:
                if _section(fp16) == _section(bf16) and fp16.key != bf16.key:
                    yield self._own(file, fp16, bf16, "fp16-off")
        for amp in own["amp"]:
            for other in (*engine["fp16"], *engine["bf16"]):
                yield self._own(file, amp, other, "amp-off")
        for one, two in (("fp16", "bf16"), ("bf16", "fp16")):
            for item in own[one][:1]:
                for other in engine[two][:1]:
                    yield self._own(file, item, other, "none")

    def _own(self, file: ConfigFile, one: Written, two: Written, cure: str) -> Finding:
        return self._found(
            say("{path} switches on {key} and {other_key}.", path=file.path, key=one.key, other_key=two.key),
            (one, two),
            certain=False,
            cure=cure,
        )

    def _scalers(self, source: Source) -> Iterator[Finding]:
        """A gradient scaler whose loss goes to a DeepSpeed engine."""
        for script in source.scripts:
            engine = next(script.calls_to("deepspeed.initialize"), None)
            if engine is None or switched_off(source, engine):
                continue
            for call in script.calls_to("torch.amp.GradScaler.scale", "torch.cuda.amp.GradScaler.scale"):
                if call.function == engine.function and not switched_off(source, call):
                    yield self._found_at(
                        say("A GradScaler scales the loss of a DeepSpeed engine, which already scales it under fp16."),
                        (call.span, engine.span),
                    )
                    break

    def _models(self, source: Source) -> Iterator[Finding]:
        """A model loaded in one half precision and trained in the other, or in fp16 with fp16's scaler."""
        calls = list(argument_calls(source))
        if len(calls) != 1:
            return
        script, call = calls[0]
        for owner, load in trained_models(source):
            dtype = from_keyword(owner, load, "torch_dtype") or from_keyword(owner, load, "dtype")
            loaded = HALF.get(dtype.word) if dtype is not None else None
            if dtype is None or loaded is None or not dtype.sure:
                continue
            yield from self._against(script, call, dtype, loaded)

    def _against(self, script: Script, call: Call, dtype: Written, loaded: str) -> Iterator[Finding]:
        fp16, bf16 = from_keyword(script, call, "fp16"), from_keyword(script, call, "bf16")
        if fp16 is not None and fp16.on and fp16.sure:
            hurt = (
                say("cannot unscale fp16 gradients")
                if loaded == "fp16"
                else say("scales gradients without need in bf16")
            )
            yield self._found(
                say(
                    "The model is loaded in {word} and trained with fp16=True, whose scaler {hurt}.",
                    word=dtype.word,
                    hurt=hurt,
                ),
                (dtype, fp16),
                certain=False,
                cure="load" if loaded == "fp16" else "none",
            )
        elif bf16 is not None and bf16.on and bf16.sure and loaded == "fp16":
            yield self._found(
                say(
                    "The model is loaded in {word} and trained with bf16=True: its gradients are fp16, "
                    "without a scaler.",
                    word=dtype.word,
                ),
                (dtype, bf16),
                certain=False,
                cure="load-bf16",
            )

    def _found_at(self, message: str, places: tuple[SourceSpan, ...]) -> Finding:
        return self.finding(
            message,
            evidence=places,
            confidence=Confidence.SUSPECTED,
            severity=Severity.WARNING,
            subject=f"{places[0].path}:{places[0].line}",
            detail=PrecisionConflictDetail(cure="scaler"),
        )

    def _found(
        self, message: str, items: tuple[Written, ...], *, breaks: str = "", certain: bool = True, cure: str
    ) -> Finding:
        places: tuple[SourceSpan | Setting, ...] = tuple(dict.fromkeys(item.place for item in items))
        return self.finding(
            message,
            evidence=places,
            confidence=Confidence.SUSPECTED,
            severity=Severity.ERROR if certain else Severity.WARNING,
            cost=Cost(breaks=breaks) if certain and breaks else None,
            subject=f"{places[0].path}:{places[0].line}",
            detail=PrecisionConflictDetail(cure=cure),
        )


def _other_half(both: list[Mismatch]) -> Written | None:
    """The half precision that the arguments switch on instead of DeepSpeed's, when that is all that differs."""
    if len(both) != 1 or both[0].argument is not None or not both[0].engine.on:
        return None
    return both[0].link.arguments.on("bf16" if both[0].name == "fp16" else "fp16")


def _section(item: Written) -> tuple[str, ...]:
    """The section that a switch stands in; `fp16.enabled` stands where `fp16` does."""
    parts = item.entry.parts if item.entry is not None else ()
    return parts[:-2] if parts and parts[-1] == "enabled" else parts[:-1]
