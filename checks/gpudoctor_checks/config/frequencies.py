"""CFG006: a declared period of logging, evaluation or saving is out of band."""

from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.trainer_periods import HF_CONFIGS, number
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity, Threshold
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
    """The arguments that decide whether it has an effect, and their default in transformers."""
    strategy: str
    lightning: str
    limit: str
    """The threshold."""


KINDS = {
    "log": _Kind(say("logs"), "logging_period", "logging_steps", ("logging_strategy",), "steps", "log_every_n_steps",
                 "log_period"),
    "eval": _Kind(say("evaluates"), "evaluation_period", "eval_steps", ("eval_strategy", "evaluation_strategy"), "no",
                  "val_check_interval", "eval_period"),
    "save": _Kind(say("saves a checkpoint"), "save_period", "save_steps", ("save_strategy",), "steps",
                  "every_n_train_steps", "save_period"),
}  # fmt: skip
LIGHTNING = ("lightning", "pytorch_lightning")


_Declared = tuple[str, str, float, SourceSpan | Setting, int | None, int]
"""Key, kind, steps of a period, its place, steps of the run where they are declared, micro-batches to a step."""


class Frequencies(Check):
    """A declared period of logging, evaluation or saving is too short or too long.

    What it finds:
        - `logging_steps` below 10, `eval_steps` and `save_steps` below 50 in `TrainingArguments` and the
          classes that extend it.
        - Lightning's `log_every_n_steps`, `val_check_interval`, `every_n_train_steps`.
        - The keys of the same meaning in config files, such as DeepSpeed's `steps_per_print`. It knows
          LLaMA-Factory, axolotl, torchtune and Lightning, and reads `training_log_freq` and the like in your
          own sections.
    Why it hurts:
        Each log reads the loss back and makes the host wait for the GPU. Each evaluation stops the training for
        a pass over another set. Each save writes weights and optimizer state, three times the model's size in
        the case of Adam. If they happen every few steps, they take more time than the training.
    How it knows:
        It reads the arguments of the call with their command-line defaults, and the keys of config files. It
        respects strategies (`eval_strategy: epoch`), and ignores defaults that are not written. The declaration
        does not show the cost: the finding is a note.
    False alarms:
        Short runs on purpose: if `max_steps` is given, an action that happens at most 20 times is not a
        finding. Steps of many seconds, for which logging each one costs nothing.
    Remedies:
        Log every 50 steps, evaluate and save every 500 (transformers' default), or at the end of an epoch.
    References:
        - https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments
        - https://lightning.ai/docs/pytorch/stable/common/trainer.html
    """

    code = "CFG006"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG})
    severity = Severity.NOTE
    thresholds = (
        Threshold("log_period", 10, "{step}",
                  "the catalogue's S4 (training-step fix): every 10 to 50 steps; Lightning's default is 50",
                  "Logging more often than once in this many steps is a finding."),
        Threshold("eval_period", 50, "{step}", "a tenth of transformers' default of 500 steps",
                  "Evaluating more often than once in this many steps is a finding."),
        Threshold("save_period", 50, "{step}", "a tenth of transformers' default of 500 steps",
                  "Saving more often than once in this many steps is a finding."),
        Threshold("occasions", 20, "{time}",
                  "transformers' default of 500 steps comes 20 times in a run of 10,000 steps",
                  "What happens at most this often in the whole run is not a finding."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        for key, kind, period, span, run, accumulation in (*_from_source(source), *_from_configs(configs)):
            limit = self.limit(KINDS[kind].limit)
            grouped = accumulation if kind == "log" and period > 1 else 1
            seldom = run and run / period <= self.limit("occasions")
            # A number below 1 is a share of the run, which follows its length.
            if period < 1 or seldom or period * grouped >= limit:
                continue
            text = say(
                "{key}={period:g} {action} {often}; the norm is {limit:.0f} or more.",
                key=key,
                period=period,
                action=KINDS[kind].word,
                often=say("on every step") if period == 1 else say("every {period:g} steps", period=period),
                limit=limit,
            )
            shown = span.reproduce if isinstance(span, Setting) else f"grep -n '{key}' {span.path}"
            measured = Measurement(key, period, "{step}", provenance=Provenance.DECLARED, reproduce=shown)
            yield self.finding(
                text,
                evidence=(span, measured),
                subject=f"{span.path}:{span.line} {key}",
                detail=Facts(key=key, kind=kind, run=run or 0, norm=limit),
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
                    yield meaning.entry.key, name, meaning.number, meaning.setting, run, grouped


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
    written = number(call, key)
    period = int(written) if written is not None and written.is_integer() else written
    if period is not None and period > 0:
        keyword = next((item for item in call.node.keywords if item.arg == key), None)
        place = call.span if keyword is None else script.span(keyword)
        accumulation, run = number(call, "gradient_accumulation_steps"), number(call, "max_steps")
        yield key, kind, period, place, int(run) if run and run > 0 else None, int(accumulation or 1)
