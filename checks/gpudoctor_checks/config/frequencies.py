"""CFG006: a declared period of logging, evaluation or saving is out of band."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Finding,
    Measurement,
    Patient,
    Provenance,
    Reads,
    Severity,
    SourceSpan,
    Threshold,
)
from gpudoctor.model.signs.program import switched_off
from gpudoctor.model.signs.source import Call, Known, Script, Source

LOGGING = ("logging_steps", "log_every_n_steps", "log_interval", "log_every", "log_freq", "training_log_freq")
EVALUATION = ("eval_steps", "val_check_interval", "eval_interval", "eval_every", "eval_freq")
SAVING = (
    "save_steps",
    "every_n_train_steps",
    "save_interval",
    "checkpoint_interval",
    "save_every",
    "save_freq",
)
KINDS = {key: kind for kind, keys in (("log", LOGGING), ("eval", EVALUATION), ("save", SAVING)) for key in keys}
"""Declared keys and what they set the period of. Profiling periods are OBS001's, watch periods OBS006's."""

WORDS = {"log": "logs", "eval": "evaluates", "save": "saves a checkpoint"}

STRATEGIES = {
    "logging_steps": (("logging_strategy",), "steps"),
    "eval_steps": (("eval_strategy", "evaluation_strategy"), "no"),
    "save_steps": (("save_strategy",), "steps"),
}
"""Key to the arguments that decide whether it has an effect, and their default in transformers."""

HF_CONFIGS = {
    "TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig", "PPOConfig",
    "KTOConfig", "ORPOConfig", "CPOConfig", "RewardConfig", "SentenceTransformerTrainingArguments",
    "UnslothTrainingArguments", "GaudiTrainingArguments", "ORTTrainingArguments",
}  # fmt: skip
"""transformers.TrainingArguments and the classes that extend it."""

LIGHTNING = ("lightning", "pytorch_lightning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One declared period, wherever it was read."""

    key: str
    kind: str
    """`log`, `eval` or `save`."""
    period: float
    """Steps; below 1 a share of the run, as transformers and Lightning read it."""
    span: SourceSpan
    origin: str
    """Where the value comes from: `literal`, `default of --logging-steps`..."""
    run: int | None
    """Steps of the run, where they are declared."""
    accumulation: int = 1
    """Micro-batches to a step."""


class Frequencies(Check):
    """A declared period of logging, evaluation or saving is out of band.

    What it finds:
        `logging_steps` below 10, `eval_steps` and `save_steps` below 50 in `TrainingArguments` and the classes
        that extend it; Lightning's `log_every_n_steps`, `val_check_interval`, `every_n_train_steps`. Also a
        logging or evaluation period longer than `max_steps`: it never comes.
    Why it hurts:
        Each log reads the loss back and makes the host wait for the GPU; each evaluation stops the training
        for a pass over another set; each save writes weights and optimizer state, three times the model's
        size in the case of Adam. Every few steps, they take more time than the training.
    How it knows:
        It reads the arguments of the call, and command-line defaults behind them. From the declaration alone
        the price is not known: a note, except saves every few steps, which always cost.
    False alarms:
        Short runs on purpose: when `max_steps` is given, what happens at most 20 times in the run is no
        finding. Steps of many seconds, where logging each one costs nothing.
    Remedies:
        Log every 50 steps, evaluate and save every 500 (transformers' default), or at the end of an epoch.
    References:
        - https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments
        - https://lightning.ai/docs/pytorch/stable/common/trainer.html
    """

    code = Code("CFG006")
    name = "frequencies"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            name="log_period",
            default=10,
            unit="{step}",
            source="the catalogue's S4 (training-step fix): every 10 to 50 steps; Lightning's default is 50",
            meaning="Logging more often than once in this many steps is a finding.",
        ),
        Threshold(
            name="eval_period",
            default=50,
            unit="{step}",
            source="a tenth of transformers' default of 500 steps",
            meaning="Evaluating more often than once in this many steps is a finding.",
        ),
        Threshold(
            name="save_period",
            default=50,
            unit="{step}",
            source="a tenth of transformers' default of 500 steps",
            meaning="Saving more often than once in this many steps is a finding.",
        ),
        Threshold(
            name="save_period_costly",
            default=10,
            unit="{step}",
            source="the catalogue: saves every few steps are known to cost 5 % and more",
            meaning="Saving more often than once in this many steps is a warning.",
        ),
        Threshold(
            name="occasions",
            default=20,
            unit="{time}",
            source="transformers' default of 500 steps comes 20 times in a run of 10,000 steps",
            meaning="What happens at most this often in the whole run is no finding, however short its period.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for declared in _from_source(patient.source):
            finding = self.judge(declared)
            if finding is not None:
                yield finding

    def judge(self, declared: Declared) -> Finding | None:
        """The finding for one declared period, wherever it was read; None when it is in band."""
        if declared.run and declared.period > declared.run:
            # transformers saves at the end of a run whatever save_steps says
            return None if declared.kind == "save" else self._never(declared)
        if not self._too_often(declared):
            return None
        period = declared.period
        often = (
            "on every step"
            if period == 1
            else f"every {period:g} steps"
            if period > 1
            else f"{1 / period:.0f} times"
        )
        limit = self.limit(f"{declared.kind}_period")
        costly = declared.kind == "save" and 1 <= period < self.limit("save_period_costly")
        norm = (
            f"the norm is {limit:.0f} or more"
            if period >= 1
            else f"in a run, the norm is a period of {limit:.0f} steps"
        )
        return self._found(
            declared,
            f"{declared.key}={period:g} {WORDS[declared.kind]} {often}; {norm}.",
            severity=Severity.WARNING if costly else Severity.NOTE,
            never=False,
        )

    def _too_often(self, declared: Declared) -> bool:
        limit = self.limit(f"{declared.kind}_period")
        period = declared.period
        if period < 1:  # a share of the run
            return (
                bool(declared.run)
                and period * (declared.run or 0) < limit
                and 1 / period > self.limit("occasions")
            )
        if declared.run and declared.run / period <= self.limit("occasions"):
            return False
        if declared.kind == "log" and period > 1:
            period *= declared.accumulation
        return period < limit

    def _never(self, declared: Declared) -> Finding:
        return self._found(
            declared,
            f"{declared.key}={declared.period:g} is longer than the run of {declared.run} steps (max_steps): "
            f"it never {WORDS[declared.kind]}.",
            severity=Severity.NOTE,
            never=True,
        )

    def _found(self, declared: Declared, message: str, *, severity: Severity, never: bool) -> Finding:
        span = declared.span
        return self.finding(
            message,
            evidence=(
                span,
                Measurement(
                    name=declared.key,
                    value=declared.period,
                    unit="{step}" if declared.period >= 1 else "1",
                    provenance=Provenance.DECLARED,
                    reproduce=f"grep -n '{declared.key}' {span.path}",
                ),
            ),
            confidence=Confidence.SUSPECTED,
            severity=severity,
            subject=f"{span.path}:{span.line} {declared.key}",
            facts=(
                ("key", declared.key),
                ("kind", declared.kind),
                ("run", declared.run or 0),
                ("never", never),
                ("literal", declared.origin == "literal"),
            ),
        )


def _from_source(source: Source) -> Iterator[Declared]:
    for script in source.scripts:
        for call in script.calls:
            package = call.name.split(".", 1)[0]
            if call.method in HF_CONFIGS and not switched_off(source, call):
                yield from _transformers(script, call)
            elif package in LIGHTNING and call.method in {"Trainer", "ModelCheckpoint"}:
                yield from _lightning(script, call)


def _transformers(script: Script, call: Call) -> Iterator[Declared]:
    for key, (switches, default) in STRATEGIES.items():
        given = next((call.keywords[name] for name in switches if name in call.keywords), None)
        strategy = given.value if isinstance(given, Known) else default if given is None else None
        if str(strategy).rsplit(".", 1)[-1].lower() == "steps":
            yield from _declared(script, call, key)


def _lightning(script: Script, call: Call) -> Iterator[Declared]:
    if call.keywords.get("fast_dev_run") is None:
        for key in ("log_every_n_steps", "every_n_train_steps"):
            yield from _declared(script, call, key)
        value = call.keywords.get("val_check_interval")
        if isinstance(value, Known) and isinstance(value.value, int) and not isinstance(value.value, bool):
            yield from _declared(script, call, "val_check_interval")  # a float is a share of an epoch


def _declared(script: Script, call: Call, key: str) -> Iterator[Declared]:
    value = call.keywords.get(key)
    if (
        not isinstance(value, Known)
        or isinstance(value.value, bool)
        or not isinstance(value.value, int | float)
    ):
        return
    if value.value > 0:
        yield Declared(
            key=key,
            kind=KINDS[key],
            period=value.value,
            span=_place(script, call, key),
            origin=value.origin,
            run=_whole(call, "max_steps"),
            accumulation=_whole(call, "gradient_accumulation_steps") or 1,
        )


def _place(script: Script, call: Call, key: str) -> SourceSpan:
    """The line of the argument."""
    keyword = next((item for item in call.node.keywords if item.arg == key), None)
    return call.span if keyword is None else script.span(keyword)


def _whole(call: Call, key: str) -> int | None:
    value = call.keywords.get(key)
    if isinstance(value, Known) and isinstance(value.value, int) and value.value > 0:
        return value.value
    return None
