"""CFG003: optimizer, learning rate or schedule are set twice, and differently."""

from collections.abc import Iterator

from gpudoctor.analysis.source.config_links import Link, links
from gpudoctor.analysis.source.declared_settings import Written
from gpudoctor.lang import template
from gpudoctor.model import Check, Finding, Patient, Reads, Severity
from gpudoctor_checks.config.conflicts import conflicts
from gpudoctor_checks.config.disagreement import OPTIMISATION, mismatch_finding, mismatches, sentence, settings_finding

FAMILIES = ("adafactor", "adagrad", "adam", "lamb", "lion", "sgd", "muon", "rmsprop", "galore", "lomo", "apollo")
"""Optimizers that are not each other; `adamw_torch` and DeepSpeed's `AdamW` are one."""


class OptimizerMismatch(Check):
    """Optimizer, learning rate or schedule are set twice, and differently.

    What it finds:
        - A learning rate, weight decay, epsilon, gradient clipping or warm-up in a DeepSpeed config that
          differs from the training arguments.
        - An optimizer in the script and in the DeepSpeed config.
        - An `optim` next to a DeepSpeed config that has its own optimizer of another kind.
    Why it hurts:
        transformers compares the numbers and refuses to start. It does not compare the optimizers: DeepSpeed's
        is used. That of the training arguments has no effect.
    How it knows:
        It reads the linked files and resolves "auto" to the training arguments. The defaults of a plain
        `TrainingArguments` call count, since transformers compares those too.
    False alarms:
        A config that a wrapper rewrites before the run.
    Remedies:
        Set "auto" in the DeepSpeed config, or remove its optimizer.
    References:
        - https://huggingface.co/docs/transformers/deepspeed
        - https://www.deepspeed.ai/docs/config-json/#optimizer-parameters
    """

    code = "CFG003"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        _ = patient.source_and_configs
        yield from conflicts(self, patient)
        for link in links(patient):
            for mismatch in mismatches(link, OPTIMISATION):
                yield mismatch_finding(self, mismatch)
            for engine, argument in _kinds(link):
                text = sentence(
                    template(
                        "{config} says {key}={value} and {arguments} says {other_key}={other_value}; "
                        "DeepSpeed's value is used, the other has no effect."
                    ),
                    link.deepspeed.title,
                    engine,
                    argument,
                    arguments=link.arguments.title,
                )
                yield settings_finding(self, text, argument, engine, cure="one", subject=f" {argument.key}")


def _kinds(link: Link) -> Iterator[tuple[Written, Written]]:
    """The optimizers of DeepSpeed and of the arguments, which nobody compares: DeepSpeed's runs."""
    engine, wanted = link.deepspeed.get("optimizer.type"), link.arguments.get("optim")
    if engine is not None and wanted is not None and engine.known and wanted.known and wanted.value:
        one, two = _family(str(engine.value)), _family(str(wanted.value))
        if one and two and one != two:
            yield engine, wanted


def _family(name: str) -> str:
    """Which of the optimizers a name means; "" for a name of neither."""
    lowered = name.lower().replace("_", "")
    return next((family for family in FAMILIES if family in lowered), "")
