"""DATA006 padding-waste."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, spots
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.declared_settings import as_number
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Severity, Threshold, Whose
from gpudoctor.model.signs.source import Call, Known, Script
from gpudoctor.text import percent
from gpudoctor_checks.run_check import RunCheck

_PACKING = ("packing", "group_by_length", "train_sampling_strategy", "pack_to_max_length", "padding_free")
_COLLATORS = re.compile(r"DataCollator\w*|default_data_collator")
_NOT_TRAINING = re.compile(
    r"(?:^|_|\.)(?:eval|evaluate|evaluation|val|valid|validation|test|infer|inference|predict|generate|sample|demo|export)(?:_|$|\d)"
)

_FIXED_SHAPES = frozenset({"torch_xla", "diffusers", "optimum", "tensorflow", "jax", "flax", "open_clip"})
"""Packages of programs that need one shape (TPUs) or a text encoder's fixed length (diffusion models)."""


class PaddingWaste(RunCheck):
    """Every training sample is padded to one fixed, large length.

    What it finds:
        `padding="max_length"` of a tokenizer or a collator with a maximum of 256 tokens or more (or the model's
        own). The program trains on them without packing.
    Why it hurts:
        Padding costs as much as text: attention, matrix products and activations. Samples of 150 tokens on
        average, padded to 512, spend 70 % of time and activation memory on padding.
    How it knows:
        From the source: the arguments of the call, N followed through constants and options. The share of
        padding depends on the data, so this is a note; a recording can count it.
    False alarms:
        Data that fills the length (packed or cut texts). TPUs and CUDA graphs that need one shape. Text
        encoders of diffusion models. Evaluation and short maxima are not reported.
    Remedies:
        Pad each batch to its longest sample (a padding collator), group samples of similar length, or pack.
    References:
        - https://huggingface.co/docs/transformers/pad_truncation
        - https://huggingface.co/docs/transformers/main_classes/data_collator
    """

    code = "DATA006"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "max_length",
            256,
            "{tokens}",
            "twice the 128 tokens of the sentence-classification examples",
            "Padding to at least this many tokens is a finding.",
        ),
        *Threshold.note_and_warning(
            "This share of padded tokens in a recorded run is",
            noted=0.30,
            warned=0.50,
            source_warned="SageMaker's NLPSequenceRatio: 50 %",
            name="padding",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        share = of_run.padding(run.states)
        if share is None:
            yield from suspected
            return
        tokens = sum(state.total("tokens") for state in run.states)
        severity = self.level(share, "padding_noted", "padding_warned")
        if severity is None:
            return
        loader = of_run.training_loader(run.lead.process)
        spans = spots(patient, loader.place) if loader is not None else []
        compute = run.share("forward", "backward")
        yield of_run.seen_in_run(run, share * compute, spans, whose=Whose.DEVICE).finding(
            self,
            say(
                "{share} of the tokens are padding: {tokens:,.0f} "
                "tokens a step on a rank, forward and backward {compute} of the time.",
                share=percent(share),
                tokens=tokens / run.lead.steps / len(run.states),
                compute=percent(compute),
            ),
            name="step_share",
            severity=severity,
            suspected=suspected,
            detail=Facts(how="recording", single=False),
            numbers=(run.measured("padding_share", share),),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        for script in source.scripts:
            found = list(self._calls(script)) if "max_length" in script.text else []
            programs = [item for item in training_programs(source) if script in item.scripts] if found else []
            if programs and not any(item.roots & _FIXED_SHAPES or _packs(item) for item in programs):
                on = [item for item in found if not switched_off(programs[0].source, item[0])]
                if on:
                    yield self._from_source(on)

    def _calls(self, script: Script) -> Iterator[tuple[Call, int]]:
        """Calls that pad, with the tokens that they pad to; 0 for the model's own maximum."""
        for call in script.calls:
            padding, length = call.keywords.get("padding"), call.argument("max_length")
            if not (isinstance(padding, Known) and padding.value == "max_length"):
                continue
            pads = _COLLATORS.fullmatch(call.method) or "tok" in ast.unparse(call.node.func).lower()
            if not pads or "CLIP" in script.text or _NOT_TRAINING.search(call.function.lower()):
                continue
            tokens = as_number(length.value) if isinstance(length, Known) else None
            if length is None or (tokens or 0) >= self.limit("max_length"):
                yield call, int(tokens or 0)

    def _from_source(self, found: list[tuple[Call, int]]) -> Finding:
        call, length = found[0]
        longest = say("the model's maximum length (512 tokens for BERT)")
        short = call.function.rpartition(".")[2].lower()
        how = "collate" if "collat" in short or short == "__call__" else "tokenizer"
        return self.finding(
            say(
                "{shown} pads every training sample to {length}, regardless of its own length.",
                shown=ast.unparse(call.node.func),
                length=say("{length} tokens", length=length) if length else longest,
            ),
            evidence=tuple(item.span for item, _ in found[:4]),
            subject=f"{call.span.path}:{call.span.line}",
            detail=Facts(how="collator" if _COLLATORS.fullmatch(call.method) else how, single=len(found) == 1),
        )


def _packs(program: Program) -> bool:
    """Whether packing or length grouping is named anywhere in the program."""
    return any(name in call.keywords for _, call in program.calls for name in _PACKING)
