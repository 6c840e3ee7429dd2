"""CFG006: a declared period of logging, evaluation or saving is out of band."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.trainer_periods import HF_CONFIGS
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import Measurement, Provenance, Setting, SourceSpan
from gpudoctor.model.signs.configs import ConfigFile, Configs
from gpudoctor.model.signs.source import Call, Known, Script, Source


class _Kind(NamedTuple):
    """One thing that is done every so many steps."""

    word: str
    canonical: str
    """Its name in the config reader's words. Profiling periods are OBS001's, watch periods OBS006's."""
    transformers: str
    """The training argument."""
    strategies: tuple[str, ...]
    """The arguments that decide whether it has an effect."""
    strategy: str
    """Their default in transformers."""
    lightning: str
    limit: str
    """The threshold."""


KINDS = {
    "log": _Kind(
        say("logs"),
        "logging_period",
        "logging_steps",
        ("logging_strategy",),
        "steps",
        "log_every_n_steps",
        "log_period",
    ),
    "eval": _Kind(
        say("evaluates"),
        "evaluation_period",
        "eval_steps",
        ("eval_strategy", "evaluation_strategy"),
        "no",
        "val_check_interval",
        "eval_period",
    ),
    "save": _Kind(
        say("saves a checkpoint"),
        "save_period",
        "save_steps",
        ("save_strategy",),
        "steps",
        "every_n_train_steps",
        "save_period",
    ),
}
LIGHTNING = ("lightning", "pytorch_lightning")


class _Declared(NamedTuple):
    """One declared period, wherever it was read."""

    key: str
    kind: str
    period: float
    """Steps; below 1 a share of the run, as transformers and Lightning read it."""
    span: SourceSpan | Setting
    """The argument in a script, or the key in a config file."""
    run: int | None
    """Steps of the run, where they are declared."""
    accumulation: int
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
        source, configs = patient.source_and_configs
        for declared in (*_from_source(source), *_from_configs(configs)):
            if declared.run and declared.period > declared.run:
                if declared.kind != "save":  # transformers saves at the end of a run whatever save_steps says
                    text = say(
                        "{key}={period:g} is longer than the run of {run} steps (max_steps): it never {words}.",
                        key=declared.key,
                        period=declared.period,
                        run=declared.run,
                        words=KINDS[declared.kind].word,
                    )
                    yield self._found(declared, text, Severity.NOTE, never=True)
            elif self._too_often(declared):
                yield self._often(declared)

    def _too_often(self, declared: _Declared) -> bool:
        limit, period, run = self.limit(KINDS[declared.kind].limit), declared.period, declared.run
        if period < 1:  # a share of the run
            return bool(run) and period * (run or 0) < limit and 1 / period > self.limit("occasions")
        if run and run / period <= self.limit("occasions"):
            return False
        grouped = declared.kind == "log" and period > 1
        return period * (declared.accumulation if grouped else 1) < limit

    def _often(self, declared: _Declared) -> Finding:
        period, limit = declared.period, self.limit(KINDS[declared.kind].limit)
        if period < 1:
            often = say("{period:.0f} times", period=1 / period)
            norm = say("in a run, the norm is a period of {limit:.0f} steps", limit=limit)
        else:
            often = say("on every step") if period == 1 else say("every {period:g} steps", period=period)
            norm = say("the norm is {limit:.0f} or more", limit=limit)
        costly = declared.kind == "save" and 1 <= period < self.limit("save_period_costly")
        text = say(
            "{key}={period:g} {action} {often}; {norm}.",
            key=declared.key,
            period=period,
            action=KINDS[declared.kind].word,
            often=often,
            norm=norm,
        )
        return self._found(declared, text, Severity.WARNING if costly else Severity.NOTE, never=False)

    def _found(self, declared: _Declared, message: str, severity: Severity, *, never: bool) -> Finding:
        span, key = declared.span, declared.key
        measured = Measurement(
            name=key,
            value=declared.period,
            unit="{step}" if declared.period >= 1 else "1",
            provenance=Provenance.DECLARED,
            reproduce=span.reproduce if isinstance(span, Setting) else f"grep -n '{key}' {span.path}",
        )
        return self.finding(
            message,
            evidence=(span, measured),
            confidence=Confidence.SUSPECTED,
            severity=severity,
            subject=f"{span.path}:{span.line} {key}",
            detail=FrequenciesDetail(
                key=key,
                kind=declared.kind,
                run=declared.run or 0,
                never=never,
                norm=self.limit(KINDS[declared.kind].limit),
            ),
        )


def _from_configs(configs: Configs) -> Iterator[_Declared]:
    """The periods that config files write down, each tool's key under its canonical name."""
    for file in configs.files:
        if any(item.value for item in file.meaning("smoke_run")):
            continue  # a few batches only, to see that nothing breaks
        run, accumulation = _run(file), file.meaning("gradient_accumulation")
        grouped = int(accumulation[0].number or 1) if accumulation else 1
        for name, kind in KINDS.items():
            for meaning in file.meaning(kind.canonical):
                if meaning.number is not None and meaning.unit == "step":
                    yield _Declared(meaning.entry.key, name, meaning.number, meaning.setting, run, grouped)


def _run(file: ConfigFile) -> int | None:
    """Steps of the run as far as the file says them."""
    steps, each, epochs = (
        [item.number for item in file.meaning(name) if item.number]
        for name in ("max_steps", "max_steps_per_epoch", "epochs")
    )
    return int(steps[0]) if steps else int(each[0] * epochs[0]) if each and epochs else None


def _from_source(source: Source) -> Iterator[_Declared]:
    for script in source.scripts:
        for call in script.calls:
            if call.method in HF_CONFIGS and not switched_off(source, call):
                for name, kind in KINDS.items():
                    given = next((call.keywords[key] for key in kind.strategies if key in call.keywords), None)
                    strategy = given.value if isinstance(given, Known) else kind.strategy if given is None else None
                    if str(strategy).rsplit(".", 1)[-1].lower() == "steps":
                        yield from _declared(script, call, name, kind.transformers)
            elif call.name.split(".", 1)[0] in LIGHTNING and call.method in {"Trainer", "ModelCheckpoint"}:
                for name in ("log", "save", "eval") if call.keywords.get("fast_dev_run") is None else ():
                    value = call.keywords.get(KINDS[name].lightning)
                    share = name == "eval" and isinstance(value, Known) and not isinstance(value.value, int)
                    if not share:  # of an epoch
                        yield from _declared(script, call, name, KINDS[name].lightning)


def _declared(script: Script, call: Call, kind: str, key: str) -> Iterator[_Declared]:
    value = call.keywords.get(key)
    known = value.value if isinstance(value, Known) else None
    if isinstance(known, int | float) and not isinstance(known, bool) and known > 0:
        keyword = next((item for item in call.node.keywords if item.arg == key), None)
        place = call.span if keyword is None else script.span(keyword)
        accumulation = _whole(call, "gradient_accumulation_steps") or 1
        yield _Declared(key, kind, known, place, _whole(call, "max_steps"), accumulation)


def _whole(call: Call, key: str) -> int | None:
    value = call.keywords.get(key)
    return value.value if isinstance(value, Known) and isinstance(value.value, int) and value.value > 0 else None
