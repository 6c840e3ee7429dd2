"""CFG006: a declared period of logging, evaluation or saving is out of band."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.trainer_periods import HF_CONFIGS
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Detail,
    Finding,
    Measurement,
    Patient,
    Provenance,
    Reads,
    Setting,
    Severity,
    SourceSpan,
    Threshold,
)
from gpudoctor.model.signs.configs import ConfigFile, Configs
from gpudoctor.model.signs.source import Call, Known, Script, Source

LOGGING = ("logging_steps", "log_every_n_steps", "log_interval", "log_every", "log_freq", "training_log_freq")
EVALUATION = ("eval_steps", "val_check_interval", "eval_interval", "eval_every", "eval_freq")
SAVING = ("save_steps", "every_n_train_steps", "save_interval", "checkpoint_interval", "save_every", "save_freq")
KINDS = {key: kind for kind, keys in (("log", LOGGING), ("eval", EVALUATION), ("save", SAVING)) for key in keys}
"""Declared keys and what they set the period of. Profiling periods are OBS001's, watch periods OBS006's."""

PERIODS = {"logging_period": "log", "evaluation_period": "eval", "save_period": "save"}
"""The config reader's canonical names."""

LIMITS = {"log": "log_period", "eval": "eval_period", "save": "save_period"}
"""The threshold of each kind."""

WORDS = {"log": say("logs"), "eval": say("evaluates"), "save": say("saves a checkpoint")}

STRATEGIES = {
    "logging_steps": (("logging_strategy",), "steps"),
    "eval_steps": (("eval_strategy", "evaluation_strategy"), "no"),
    "save_steps": (("save_strategy",), "steps"),
}
"""Key to the arguments that decide whether it has an effect, and their default in transformers."""

LIGHTNING = ("lightning", "pytorch_lightning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One declared period, wherever it was read."""

    key: str
    kind: str
    """`log`, `eval` or `save`."""
    period: float
    """Steps; below 1 a share of the run, as transformers and Lightning read it."""
    span: SourceSpan | Setting
    """The argument in a script, or the key in a config file."""
    origin: str
    """Where the value comes from: `literal`, `default of --logging-steps`..."""
    run: int | None
    """Steps of the run, where they are declared."""
    accumulation: int = 1
    """Micro-batches to a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequenciesDetail(Detail):
    """What the rule reads."""

    key: str
    kind: str
    """`log`, `eval` or `save`."""
    run: int
    """Steps of the run; 0 where not known."""
    never: bool
    """It never happens."""
    norm: float
    """Steps: a shorter period would be found again."""


class Frequencies(Check):
    """A declared period of logging, evaluation or saving is too short or too long.

    What it finds:
        - `logging_steps` below 10, `eval_steps` and `save_steps` below 50 in `TrainingArguments` and the
          classes that extend it.
        - Lightning's `log_every_n_steps`, `val_check_interval`, `every_n_train_steps`.
        - The keys of the same meaning in config files, such as DeepSpeed's `steps_per_print`. It knows
          LLaMA-Factory, axolotl, torchtune and Lightning, and reads `training_log_freq` and the like in your
          own sections.

        Also a logging or evaluation period longer than `max_steps`: it never happens.
    Why it hurts:
        Each log reads the loss back and makes the host wait for the GPU. Each evaluation stops the training for
        a pass over another set. Each save writes weights and optimizer state, three times the model's size in
        the case of Adam. If they happen every few steps, they take more time than the training.
    How it knows:
        It reads the arguments of the call with their command-line defaults, and the keys of config files. It
        respects strategies (`eval_strategy: epoch`), and ignores defaults that are not written. The declaration
        does not show the cost: the finding is a note, except for saves every few steps.
    False alarms:
        Short runs on purpose: if `max_steps` is given, an action that happens at most 20 times is not a
        finding. Steps of many seconds, for which logging each one costs nothing.
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
            meaning="What happens at most this often in the whole run is not a finding.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for declared in _everywhere(patient):
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
            say("on every step")
            if period == 1
            else say("every {period:g} steps", period=period)
            if period > 1
            else say("{period:.0f} times", period=1 / period)
        )
        limit = self.limit(LIMITS[declared.kind])
        costly = declared.kind == "save" and 1 <= period < self.limit("save_period_costly")
        norm = (
            say("the norm is {limit:.0f} or more", limit=limit)
            if period >= 1
            else say("in a run, the norm is a period of {limit:.0f} steps", limit=limit)
        )
        return self._found(
            declared,
            say(
                "{key}={period:g} {action} {often}; {norm}.",
                key=declared.key,
                period=period,
                action=WORDS[declared.kind],
                often=often,
                norm=norm,
            ),
            severity=Severity.WARNING if costly else Severity.NOTE,
            never=False,
        )

    def _too_often(self, declared: Declared) -> bool:
        limit = self.limit(LIMITS[declared.kind])
        period = declared.period
        if period < 1:  # a share of the run
            return bool(declared.run) and period * (declared.run or 0) < limit and 1 / period > self.limit("occasions")
        if declared.run and declared.run / period <= self.limit("occasions"):
            return False
        if declared.kind == "log" and period > 1:
            period *= declared.accumulation
        return period < limit

    def _never(self, declared: Declared) -> Finding:
        return self._found(
            declared,
            say(
                "{key}={period:g} is longer than the run of {run} steps (max_steps): it never {words}.",
                key=declared.key,
                period=declared.period,
                run=declared.run,
                words=WORDS[declared.kind],
            ),
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
                    reproduce=span.reproduce if isinstance(span, Setting) else f"grep -n '{declared.key}' {span.path}",
                ),
            ),
            confidence=Confidence.SUSPECTED,
            severity=severity,
            subject=f"{span.path}:{span.line} {declared.key}",
            detail=FrequenciesDetail(
                key=declared.key,
                kind=declared.kind,
                run=declared.run or 0,
                never=never,
                norm=self.limit(LIMITS[declared.kind]),
            ),
        )


def _everywhere(patient: Patient) -> Iterator[Declared]:
    """What scripts declare and what configs declare; unavailable when there is neither."""
    source, configs = patient.source_and_configs
    yield from _from_source(source)
    yield from _from_configs(configs)


def _from_configs(configs: Configs) -> Iterator[Declared]:
    """The periods that config files write down, each tool's key under its canonical name."""
    for file in configs.files:
        if _smoke_run(file):
            continue
        run, accumulation = _run(file), file.meaning("gradient_accumulation")
        for name, kind in PERIODS.items():
            for meaning in file.meaning(name):
                if meaning.number is not None and meaning.unit == "step":
                    yield Declared(
                        key=meaning.entry.key,
                        kind=kind,
                        period=meaning.number,
                        span=meaning.setting,
                        origin="literal",
                        run=run,
                        accumulation=int(accumulation[0].number or 1) if accumulation else 1,
                    )


def _run(file: ConfigFile) -> int | None:
    """Steps of the run as far as the file says them."""
    steps = [int(item.number) for item in file.meaning("max_steps") if item.number]
    if steps:
        return steps[0]
    each = [item.number for item in file.meaning("max_steps_per_epoch") if item.number]
    epochs = [item.number for item in file.meaning("epochs") if item.number]
    return int(each[0] * epochs[0]) if each and epochs else None


def _smoke_run(file: ConfigFile) -> bool:
    """Whether the file asks for a few batches only, to see that nothing breaks."""
    return any(item.value for item in file.meaning("smoke_run"))


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
    if not isinstance(value, Known) or isinstance(value.value, bool) or not isinstance(value.value, int | float):
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
