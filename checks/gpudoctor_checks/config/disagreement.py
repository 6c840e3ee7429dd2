"""Two settings disagree: what CFG001 to CFG003 share, and the finding about settings that CFG007 and CFG008 make too.

The rows are what transformers compares when DeepSpeed's config and the training arguments say one thing twice.
Source: `HfTrainerDeepSpeedConfig` of transformers 4.30 to 5.23: a value that is written in DeepSpeed's config,
not as "auto", and differs from the training argument (its default included) raises a ValueError at the start.
"""

from collections.abc import Iterator
from string import Formatter

from gpudoctor.analysis.source.config_links import Link
from gpudoctor.analysis.source.declared_settings import Written
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Facts, Finding, Setting, Severity, SourceSpan
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.configs import ConfigValue

REFUSED = say("transformers refuses the mismatch when the run starts")

PRECISION = (("fp16.enabled", "fp16", False), ("bf16.enabled", "bf16", False))
BATCH = (
    ("train_micro_batch_size_per_gpu", "per_device_train_batch_size", 8),
    ("gradient_accumulation_steps", "gradient_accumulation_steps", 1),
)
OPTIMISATION: tuple[tuple[str, str, ConfigValue], ...] = (
    ("optimizer.params.lr", "learning_rate", 5e-5),
    ("scheduler.params.warmup_max_lr", "learning_rate", 5e-5),
    ("optimizer.params.weight_decay", "weight_decay", 0.0),
    ("optimizer.params.eps", "adam_epsilon", 1e-8),
    ("gradient_clipping", "max_grad_norm", 1.0),
    ("scheduler.params.warmup_num_steps", "warmup_steps", None),
    ("scheduler.params.total_num_steps", "max_steps", None),
)
"""DeepSpeed's key, the training argument and its default; None where a default proves nothing."""


def settings_finding(
    check: Check,
    message: str,
    *items: Written | SourceSpan | Setting | None,
    cure: str,
    breaks: str = "",
    certain: bool = True,
    severity: Severity = Severity.WARNING,
    subject: str = "",
) -> Finding:
    """A check's finding about written settings: an error where it is certain that something breaks."""
    places = tuple(dict.fromkeys(item.place if isinstance(item, Written) else item for item in items if item))
    fails = bool(certain and breaks)
    return check.finding(
        message,
        evidence=places,
        severity=Severity.ERROR if fails else severity,
        breaks=breaks if fails else None,
        subject=f"{places[0].path}:{places[0].line}{subject}",
        detail=Facts(cure=cure),
    )


def sentence(text: str, title: str, one: Written, second: Written | None = None, **more: object) -> str:
    """A template of a row, filled with two settings and whatever else it names."""
    parts = {"config": title, "title": title, "path": title, "key": one.key, "value": one.shown, "shown": one.shown}
    if second is not None:
        parts |= {"other_key": second.key, "other_value": second.shown}
    fields = {name for _, name, _, _ in Formatter().parse(text) if name}
    return say(text, **{name: part for name, part in (parts | more).items() if name in fields})


@frozen
class Mismatch:
    """One thing said twice and differently."""

    link: Link
    engine: Written
    """DeepSpeed's side."""
    argument: Written | None
    """The training argument; None when it is not written and has its default."""
    name: str
    """The training argument's name."""
    default: ConfigValue
    """Its default."""

    @property
    def certain(self) -> bool:
        """Whether transformers refuses to start, whatever else is given."""
        return self.link.sure and (self.argument is None or self.argument.sure)

    @property
    def sentence(self) -> str:
        """What was compared."""
        title, argument = self.link.arguments.title, self.argument
        if argument is None:
            shown = f"{self.default:g}" if isinstance(self.default, float) else str(self.default)
            other = say("{name} is not set in {title}, so it is {shown}", name=self.name, title=title, shown=shown)
        else:
            other = sentence(template("{title} says {key}={shown}"), title, argument)
        whole = template("{title} says {key}={shown}, {other}")
        return sentence(whole, self.link.deepspeed.title, self.engine, other=other)


def mismatch_finding(check: Check, item: Mismatch, *more: Mismatch) -> Finding:
    """What transformers refuses of a link; `more` belong to the same mistake."""
    text = say("{sentence}.", sentence=item.sentence)
    key = f" {item.engine.key}"
    both = [place for one in (item, *more) for place in (one.engine, one.argument)]
    return settings_finding(check, text, *both, breaks=REFUSED, certain=item.certain, cure="auto", subject=key)


def mismatches(link: Link, rows: tuple[tuple[str, str, ConfigValue], ...]) -> Iterator[Mismatch]:
    """The rows that differ; what is "auto", computed or left out on both sides agrees."""
    for key, name, default in rows:
        engine = link.deepspeed.get(key)
        if engine is None or not engine.known or engine.value is None:
            continue
        # Either switch of a precision counts, and pure_bf16 is LLaMA-Factory's third way to say bf16.
        on = link.arguments.on(name, f"{name}_full_eval", f"pure_{name}") if name in {"fp16", "bf16"} else None
        former = ("per_gpu_train_batch_size",) if name == "per_device_train_batch_size" else ()
        argument = on or link.arguments.get(*former, name)
        other = link.arguments.on(*_OTHER_HALF.get(name, ())) if engine.on else None
        if argument is None and other is not None:  # transformers takes only one, wherever the rest is written
            yield Mismatch(link=link, engine=engine, argument=other, name=name, default=default)
            continue
        if argument is None and (default is None or not link.arguments.whole):
            continue
        if argument is not None and not argument.known:
            continue
        if name in {"warmup_steps", "max_steps"} and not (argument is not None and (argument.number or 0) > 0):
            continue  # then it is computed from the run's length
        value = default if argument is None else argument.value
        if not same(engine.value, value):
            yield Mismatch(link=link, engine=engine, argument=argument, name=name, default=default)


_OTHER_HALF = {"fp16": ("bf16", "pure_bf16"), "bf16": ("fp16",)}


def same(one: ConfigValue, other: ConfigValue) -> bool:
    """Whether two values are the same setting: numbers as numbers, null as off."""
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return _switch(one) == _switch(other)
    try:
        return float(str(one)) == float(str(other))
    except ValueError:
        return str(one) == str(other)


def _switch(value: ConfigValue) -> bool:
    return value is True or str(value).lower() in {"true", "yes", "on", "1"}
