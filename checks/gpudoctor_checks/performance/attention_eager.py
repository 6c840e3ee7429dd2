"""PERF006 attention-eager."""

import re
from collections.abc import Iterator

from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.steady_run import judged, ran_on_cpu
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.configs import Configs
from gpudoctor.model.signs.source import Known

_NEEDS_EAGER = re.compile(r"gemma-?[23]|gpt-?oss", re.IGNORECASE)
"""Models whose makers train them eagerly: soft-capped scores, attention sinks."""
_WANTS_SCORES = re.compile(r"output_attentions|need_weights=True|return_attn|attn_maps|attention_maps")


class AttentionEager(Check):
    """Attention writes its whole score matrix to memory, which a fused kernel avoids.

    What it finds:
        `attn_implementation="eager"` in source or configs .
    Why it hurts:
        The scores of a head are sequence length squared. Without fusion they are stored and read back several
        times, and kept for the backward pass. SDPA's fused kernels keep them on the chip. From a thousand
        tokens on they are 2 to 4 times faster, with memory linear in the length.
    How it knows:
        From the source of programs that train on CUDA, and from configs. Not reported: models that their makers
        train eagerly (Gemma 2 and 3, gpt-oss), and programs that request the scores.
    False alarms:
        Short sequences gain little. No fused kernel supports some variants of attention.
    Remedies:
        Set attn_implementation="sdpa"; use torch.nn.functional.scaled_dot_product_attention in your own code.
    References:
        - https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    """

    code = "PERF006"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.RECORDING})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        yield from suspicions(lambda: self._read(patient), judged(patient), refuted=ran_on_cpu(patient))

    def _read(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        yield from self._from_configs(configs)
        found: dict[object, Finding] = {}
        for program in training_programs(source):
            if program.target not in (Target.CUDA, Target.MAYBE):
                continue
            texts = [script.text for script in program.scripts]
            if any(_WANTS_SCORES.search(text) or _NEEDS_EAGER.search(text) for text in texts):
                continue
            for finding in self._asked(program):
                found.setdefault(finding.span, finding)
        yield from found.values()

    def _asked(self, program: Program) -> Iterator[Finding]:
        for _, call in program.calls:
            value = call.keywords.get("attn_implementation") or call.keywords.get("_attn_implementation")
            if not isinstance(value, Known) or value.value != "eager" or any(guard.never for guard in call.guards):
                continue
            yield self.finding(
                say('Line {line} asks for eager attention (attn_implementation="eager").', line=call.span.line),
                evidence=(call.span, next(program.loops)[1].span),
                severity=Severity.NOTE,
                detail=Facts(literal=value.origin == "literal"),
            )

    def _from_configs(self, configs: Configs) -> Iterator[Finding]:
        for file in configs.files:
            if not file.kind.trains or _NEEDS_EAGER.search(file.text):
                continue
            for entry in file.find("attn_implementation", "_attn_implementation"):
                if entry.value != "eager":
                    continue
                yield self.finding(
                    say("{key} is {value}: attention writes its scores to memory.", key=entry.key, value=entry.value),
                    evidence=(file.setting(entry),),
                    severity=Severity.NOTE,
                    subject=f"{file.path}:{entry.line}",
                    detail=Facts(literal=False),
                )
