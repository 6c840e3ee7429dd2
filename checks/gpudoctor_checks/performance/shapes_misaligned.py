"""PERF008 shapes-misaligned."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.networks import Layer, Network, network
from gpudoctor.analysis.source.precision import Precision, told_precision
from gpudoctor.analysis.source.syntax import walk
from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Detail,
    Finding,
    Patient,
    Reads,
    Severity,
    Threshold,
)
from gpudoctor.model.job_devices import lowest_capability
from gpudoctor.model.signs.configs import ConfigKind, Configs
from gpudoctor.model.signs.source import Call, GuardKind, Known, Script
from gpudoctor.text import chained

_COLLATORS = re.compile(
    r"transformers\.DataCollator(WithPadding|ForSeq2Seq|ForTokenClassification|ForLanguageModeling)$"
)
_WIDTHS = (
    "hidden_size",
    "intermediate_size",
    "n_embd",
    "d_model",
    "d_ff",
    "embed_dim",
    "hidden_dim",
    "ffn_dim",
)
_ADDS = frozenset({"add_tokens", "add_special_tokens"})
_VOCABULARIES = ("vocab_size", "padded_vocab_size", "n_vocab")
_HEADED = re.compile(
    r"CausalLM|LMHead|DoubleHeads|ConditionalGeneration|MaskedLM|Seq2SeqLM|PreTraining|Vision2Seq|ImageTextToText"
    r"|ImageToText|SpeechSeq2Seq|AutoModelWith|PreTrainedModel|PretrainedModel|MultimodalLM|VisualQuestionAnswering"
)
"""transformers' classes that predict tokens; an encoder or a classifier only looks the embeddings up."""
_PRETRAINED = ("transformers_version", "_name_or_path", "model_name_or_path", "base_model", "pretrained")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapesMisalignedDetail(Detail):
    """What the rule reads."""

    kind: str
    """`layers`, `vocabulary`, `collator` or `config`."""
    size: int = 0
    rounded: int = 0
    """The size rounded up."""
    keyword: str = ""
    """The keyword to set."""
    value: str = ""
    """Its value."""
    from_end: int = 0
    """A line that counts rows from the end; 0 where none does."""
    key: str = ""
    """Of a config."""
    path: str = ""
    """Of a config."""


class ShapesMisaligned(Check):
    """Sides of large matrix products are not multiples of 8, so tensor cores work on padding or not at all.

    What it finds:
        - Linear layers, attention and recurrent layers of 512 and more features whose size is not a multiple of
          8.
        - Such widths and vocabularies in configs of networks trained from scratch.
        - Embeddings resized to a tokenizer's exact length.
        - Collators that pad 16-bit batches to any length.
    Why it hurts:
        Tensor cores take 16-bit tiles of 8 values. A side that is not one is padded by the library, or the
        product falls back to a slower kernel. A vocabulary of 50,257 instead of 50,304 costs up to a quarter of
        the step in medium-sized networks.
    How it knows:
        From the layers' arguments in the source, with constructors and options followed, and from configs.
        Cards without tensor cores and programs on the CPU are not reported. For a program in float32 the
        finding describes 16 bits.
    False alarms:
        Libraries have become better at odd sizes (cuBLAS 11 and newer pick padded kernels by themselves). A
        pretrained network's sizes are given: only what is added to it can be aligned.
    Remedies:
        Round up to the next multiple of 64 (at least 8); use pad_to_multiple_of for vocabularies and batches.
    References:
        - https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
        - https://huggingface.co/docs/transformers/perf_train_gpu_one
    """

    code = Code("PERF008")
    name = "shapes-misaligned"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            name="multiple",
            default=8,
            unit="{values}",
            source="NVIDIA matrix multiplication guide: 16-bit operands aligned to 16 bytes",
            meaning="Sizes that are not a multiple of it are misaligned.",
        ),
        Threshold(
            name="size",
            default=512,
            unit="{values}",
            source="convention: products of smaller sides take microseconds either way",
            meaning="gpudoctor ignores smaller sizes.",
        ),
        Threshold(
            name="other_side",
            default=64,
            unit="{values}",
            source="convention: a head of ten classes gains nothing",
            meaning="gpudoctor ignores layers whose other side is smaller.",
        ),
        Threshold(
            name="capability",
            default=7.0,
            unit="1",
            source="NVIDIA: tensor cores came with Volta, compute capability 7.0",
            meaning="Cards below it have no tensor cores.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        card = lowest_capability(patient)
        if card is not None and card[0] + card[1] / 10 < self.limit("capability"):
            return
        source, configs = patient.source_and_configs
        yield from self._from_configs(configs)
        seen: set[tuple[str, int]] = set()
        for program in training_programs(source):
            if program.target not in (Target.CUDA, Target.MAYBE):
                continue
            for finding in (*self._layers(program), *self._vocabulary(program), *self._collators(program)):
                span = finding.span
                place = (span.path, span.line) if span is not None else ("", 0)
                if place not in seen:
                    seen.add(place)
                    yield finding

    def _odd(self, size: int) -> bool:
        return size >= self.limit("size") and size % int(self.limit("multiple")) != 0

    def _layers(self, program: Program) -> Iterator[Finding]:
        built: Network | None = network(program)
        layers = [layer for layer in (built.layers if built is not None else ()) if self._misaligned(layer)]
        if not layers:
            return
        sizes = sorted({size for layer in layers for size in layer.feature_sizes if self._odd(size)})
        where = lines_at(layer.call.span for layer in layers)
        many = say("is not a multiple") if len(sizes) == 1 else say("are not multiples")
        once = say(" once it computes in 16 bits") if told_precision(program).full else ""
        yield self.finding(
            say(
                "{sizes} {not_multiples} of {multiple:g} ({places}): tensor cores process this "
                "side of a matrix product in pieces{once}.",
                sizes=chained(f"{size:,}" for size in sizes[:3]),
                not_multiples=many,
                multiple=self.limit("multiple"),
                places=where,
                once=once,
            ),
            evidence=tuple(layer.call.span for layer in layers[:6]),
            confidence=Confidence.SUSPECTED,
            subject=program.entry.path,
            detail=ShapesMisalignedDetail(kind="layers", size=sizes[0], rounded=_rounded(sizes[0])),
        )

    def _misaligned(self, layer: Layer) -> bool:
        if layer.kind not in {"linear", "attention", "recurrent"}:
            return False
        if any(size < self.limit("other_side") for size in layer.feature_sizes):
            return False
        return any(self._odd(size) for size in layer.feature_sizes)

    def _vocabulary(self, program: Program) -> Iterator[Finding]:
        """`resize_token_embeddings(len(tokenizer))`: the vocabulary gets whatever length the tokenizer has."""
        for script, call in ((item, call) for item in program.scripts for call in _candidates(item)):
            if (
                call.method != "resize_token_embeddings"
                or "pad_to_multiple_of" in call.keywords
                or call.open_ended
            ):
                continue
            first = call.node.args[0] if call.node.args else None
            if first is None or len(call.node.args) > 1 or not ast.unparse(first).startswith("len("):
                continue
            if any(guard.never for guard in call.guards) or not (_grows(program) or _every_time(call)):
                continue
            if _only_looked_up(call):
                continue
            yield self.finding(
                say(
                    "Line {line} gives the embeddings the tokenizer's own length, even if it is "
                    "not a round multiple.",
                    line=call.span.line,
                ),
                evidence=(call.span,),
                confidence=Confidence.SUSPECTED,
                subject=f"{script.path}:{call.span.line}",
                detail=ShapesMisalignedDetail(
                    kind="vocabulary",
                    keyword="pad_to_multiple_of",
                    value="64",
                    from_end=_from_end(script, call),
                ),
            )

    def _collators(self, program: Program) -> Iterator[Finding]:
        """Collators that pad to the longest sample of a batch, under 16 bits."""
        if told_precision(program).precision is not Precision.LOWERED:
            return
        for script, call in ((item, call) for item in program.scripts for call in _candidates(item)):
            if not _COLLATORS.match(call.name) or "pad_to_multiple_of" in call.keywords or call.open_ended:
                continue
            padding = call.argument("padding")
            if isinstance(padding, Known) and padding.value == "max_length":
                continue
            if _fixed_lengths(program) or any(guard.never for guard in call.guards):
                continue
            yield self.finding(
                say(
                    "{collator} (line {line}) pads 16-bit batches to the longest sample, even if "
                    "that is not a round multiple.",
                    collator=call.method,
                    line=call.span.line,
                ),
                evidence=(call.span,),
                confidence=Confidence.SUSPECTED,
                subject=f"{script.path}:{call.span.line}",
                detail=ShapesMisalignedDetail(kind="collator", keyword="pad_to_multiple_of", value="8"),
            )

    def _from_configs(self, configs: Configs) -> Iterator[Finding]:
        for file in configs.files:
            if file.kind not in (ConfigKind.SECTIONS, ConfigKind.MODEL, ConfigKind.LIGHTNING):
                continue
            if any(True for _ in file.find(*_PRETRAINED)):
                continue
            for entry in file.find(*_WIDTHS, *_VOCABULARIES):
                number = entry.number
                if isinstance(number, int) and self._odd(number):
                    yield self.finding(
                        say(
                            "{key} is {size:,}, not a multiple of {multiple:g}: tensor cores "
                            "process this side of a matrix product in pieces.",
                            key=entry.key,
                            size=number,
                            multiple=self.limit("multiple"),
                        ),
                        evidence=(file.setting(entry),),
                        confidence=Confidence.SUSPECTED,
                        subject=f"{file.path}:{entry.line}",
                        detail=ShapesMisalignedDetail(
                            kind="config", key=entry.key, path=file.path, size=number, rounded=_rounded(number)
                        ),
                    )


def _from_end(script: Script, call: Call) -> int:
    """The line of the same function that counts rows from the end (`rows[-new:]`), 0 for none.

    The new tokens are the last rows only as long as nothing pads the table behind them.
    """
    function = next(
        (item for item in enclosing(script, call.node) if isinstance(item, ast.FunctionDef)), script.tree
    )
    for part in walk(function):
        if isinstance(part, ast.Slice) and any(
            isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub)
            for bound in (part.lower, part.upper)
        ):
            return part.lineno
    return 0


def _only_looked_up(call: Call) -> bool:
    """Whether a network has no layer over the vocabulary behind it: rows are looked up, none are multiplied."""
    kind = call.receiver_type or ""
    return kind.startswith("transformers.") and _HEADED.search(kind) is None and kind.count(".") == 1


@once
def _candidates(script: Script) -> list[Call]:
    """Calls that resize embeddings or make a collator."""
    return [
        call for call in script.calls if call.method == "resize_token_embeddings" or _COLLATORS.match(call.name)
    ]


def _grows(program: Program) -> bool:
    """Whether the program adds tokens to a tokenizer."""
    return any(call.method in _ADDS for _, call in program.calls)


def _every_time(call: Call) -> bool:
    """Whether it is called whatever the sizes are: not only where a tokenizer turns out to be the longer."""
    return not any(guard.kind is GuardKind.OTHER and not guard.mostly for guard in call.guards)


def _rounded(size: int) -> int:
    """The next multiple of 64, the size that every kernel likes."""
    return -(-size // 64) * 64


def _fixed_lengths(program: Program) -> bool:
    """Whether samples are cut or padded to one length beforehand."""
    return any(_cuts(script) for script in program.scripts)


@once
def _cuts(script: Script) -> bool:
    if "group_texts" in script.text:
        return True
    for call in script.calls:
        padding = call.keywords.get("padding")
        if isinstance(padding, Known) and padding.value == "max_length":
            return True
        if "ConstantLengthDataset" in call.name or "packing" in call.keywords:
            return True
    return False
