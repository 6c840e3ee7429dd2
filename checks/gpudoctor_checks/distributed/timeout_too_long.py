"""DIST010 timeout-too-long."""

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.declared_settings import as_number
from gpudoctor.analysis.source.environment_assignments import assigned
from gpudoctor.analysis.source.syntax import assigned_values, nodes
from gpudoctor.analysis.source.training_arguments import argument_calls, option_words
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Detail,
    Evidence,
    Finding,
    Patient,
    Reads,
    Setting,
    Severity,
    Threshold,
    Unavailable,
)
from gpudoctor.model.signs.job import Environment, Launch
from gpudoctor.model.signs.source import Known, Script, Source
from gpudoctor.model.unavailable import optional
from gpudoctor.text import duration

_KEYS = {
    "ddp_timeout": 1,
    "nccl_timeout": 1,
    "init_timeout_seconds": 1,
    "train_timeout_seconds": 1,
    "distributed_timeout_seconds_after_init": 1,
    "distributed_timeout_minutes": 60,
}
"""Settings of transformers, verl, torchtitan and Megatron, and the seconds of their unit."""

_VARIABLES = {"DEEPSPEED_TIMEOUT": 60}
"""Environment variables and the seconds of their unit (deepspeed/constants.py)."""

_CALLS = frozenset({
    "init_process_group", "new_group", "init_distributed", "InitProcessGroupKwargs",
    "DDPStrategy", "FSDPStrategy",
})  # fmt: skip
"""Calls of torch, DeepSpeed, accelerate and Lightning that take `timeout=timedelta(...)`."""
_ENDLESS = 1e15
"""A number of seconds or minutes beyond which nobody counts."""
_ROOTS = frozenset({"torch", "deepspeed", "accelerate", "lightning", "pytorch_lightning"})

_UNITS = {"days": 86400, "seconds": 1, "microseconds": 1e-6, "milliseconds": 1e-3, "minutes": 60, "hours": 3600,
          "weeks": 604800}  # fmt: skip
"""The arguments of `timedelta`, in their order, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutTooLongDetail(Detail):
    """What the rule reads."""

    setting: str
    better: str
    """The setting with two hours, in its own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """One timeout that somebody wrote."""

    name: str
    text: str
    seconds: float
    better: str
    where: Evidence
    subject: str
    sure: Confidence = Confidence.SUSPECTED


class TimeoutTooLong(Check):
    """The timeout of collectives is so long that no hang is reported.

    What it finds:
        - `ddp_timeout` in a config, a launch line or TrainingArguments.
        - `timeout=timedelta(...)` of init_process_group, new_group, deepspeed.init_distributed, accelerate's
          InitProcessGroupKwargs and Lightning's strategies.
        - Verl's `nccl_timeout`, Megatron's `distributed_timeout_minutes`, torchtitan's timeouts and
          DEEPSPEED_TIMEOUT, when they are longer than half a day.
    Why it hurts:
        A rank that dies quietly or waits for ever stops all others in their next collective. The timeout ends
        that wait, names the collective and frees the GPUs. `ddp_timeout: 180000000` is in many copied configs
        and means 5.7 years. With it, all GPUs wait at full utilization until a person checks.
    How it knows:
        It reads the written value and its unit. A value that only a run can tell is not judged.
    False alarms:
        A rank that prepares data for more than half a day while the others wait in a barrier. Prepare the data
        in a separate job, or give the long timeout only to the process group of that barrier.
    Remedies:
        Two hours, or the longest time that one rank keeps the others waiting.
    References:
        - https://github.com/pytorch/pytorch/pull/110947 (10 minutes for NCCL, and why)
        - https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.init_process_group
        - https://github.com/hiyouga/LLaMA-Factory/issues/6276
    """

    code = Code("DIST010")
    name = "timeout-too-long"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE, Reads.ENVIRONMENT})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="timeout",
            default=43200,
            unit="s",
            source="torch's defaults are 10 minutes for NCCL and 30 minutes otherwise (pytorch#110947). Half a "
            "day is 24 times the longer one",
            meaning="A timeout of collectives longer than this is a finding.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for written in _everywhere(patient):
            if written.seconds <= self.limit("timeout"):
                continue
            long = duration(written.seconds) if math.isfinite(written.seconds) else say("without end")
            yield self.finding(
                say(
                    "{written} lets a collective wait {long}. A hang blocks all GPUs unreported.",
                    written=written.text,
                    long=long,
                ),
                evidence=(written.where,),
                confidence=written.sure,
                subject=written.subject,
                detail=TimeoutTooLongDetail(setting=written.name, better=written.better),
            )


def _everywhere(patient: Patient) -> Iterator[_Written]:
    """Every timeout that somebody wrote; unavailable where nothing was given."""
    configs, source = optional(lambda: patient.configs), optional(lambda: patient.source)
    job, environment = optional(lambda: patient.job), optional(lambda: patient.environment)
    if configs is None and source is None and job is None and environment is None:
        raise Unavailable(say("no config, no script and no environment was given"))
    for file in configs.files if configs is not None else ():
        for entry in file.entries.values():
            name, place = entry.last.replace("-", "_").lower(), f"{file.path}:{entry.line}"
            if name in _KEYS and entry.number is not None:
                yield _key(name, entry.key, entry.number, file.setting(entry), place, ": ")
    for launch in job.launches if job is not None else ():
        yield from _options(launch, job.script_path if job is not None else None)
    if source is not None:
        yield from _arguments(source)
        for script in source.scripts:
            yield from _timedeltas(script)
    for name, unit in _VARIABLES.items():
        yield from _variable(name, unit, source, environment)


def _variable(
    name: str, unit: int, source: Source | None, environment: Environment | None
) -> Iterator[_Written]:
    own, outside = assigned(source, name), environment.get(name) if environment is not None else None
    by_script = own is not None and not (own.default and outside is not None)
    number = _number((own.value or "") if own is not None and by_script else outside or "")
    where: Evidence | None = own.span if own is not None and by_script else None
    if where is None and environment is not None:
        where = environment.evidence(name)
    if number is not None and where is not None:
        yield _Written(
            name=name, text=f"{name}={number:g}", seconds=number * unit, better=f"{name}={7200 // unit}",
            where=where, subject=name, sure=Confidence.SUSPECTED if by_script else Confidence.CONFIRMED,
        )  # fmt: skip


def _options(launch: Launch, script: str | None) -> Iterator[_Written]:
    where = launch.path or script or say("the launch line")
    for name, text in option_words(launch.arguments).items():
        number = _number(text)
        if name in _KEYS and number is not None:
            place = Setting(key=f"--{name}", value=text, origin=where, path=launch.path, line=launch.line)
            yield _key(name, f"--{name}", number, place, f"{where} --{name}", " ")


def _arguments(source: Source) -> Iterator[_Written]:
    for script, call in argument_calls(source):
        for keyword in call.node.keywords:
            name = keyword.arg or ""
            value = call.keywords.get(name)
            number = as_number(value.value) if name in _KEYS and isinstance(value, Known) else None
            if number is not None:
                place = f"{script.path}:{keyword.lineno}"
                yield _key(name, name, number, script.span(keyword), place, "=")


def _key(name: str, shown: str, number: float, where: Evidence, subject: str, equals: str) -> _Written:
    number = float(number) if number < _ENDLESS else math.inf
    return _Written(
        name=name,
        text=say("{shown}{equals}{number:.0f}", shown=shown, equals=equals, number=number),
        seconds=number * _KEYS[name],
        better=say("{shown}{equals}{keys}", shown=shown, equals=equals, keys=7200 // _KEYS[name]),
        where=where,
        subject=subject,
    )


def _timedeltas(script: Script) -> Iterator[_Written]:
    for call in script.calls:
        if call.method not in _CALLS or call.name.split(".", 1)[0] not in _ROOTS:
            continue
        keyword = next((item for item in call.node.keywords if item.arg == "timeout"), None)
        seconds = _seconds(script, keyword.value) if keyword is not None else None
        if keyword is not None and seconds is not None:
            yield _Written(
                name=say("the timeout of {method}", method=call.method),
                text=f"timeout={ast.unparse(keyword.value)}",
                seconds=seconds,
                better="timeout=timedelta(hours=2)",
                where=script.span(keyword),
                subject=f"{script.path}:{keyword.lineno}",
            )


def _seconds(script: Script, node: ast.expr) -> float | None:
    """The seconds of a `timedelta(...)`, written here or given one name; None where only a run can tell."""
    if isinstance(node, ast.Name):
        values = assigned_values(nodes(script, ast.Assign), node.id)
        return _seconds(script, values[0]) if len(values) == 1 and isinstance(values[0], ast.Call) else None
    if ast.unparse(node) in {"timedelta.max", "datetime.timedelta.max"}:
        return math.inf
    call = next((item for item in script.calls if item.node is node), None)
    if call is None or call.name.rpartition(".")[2] != "timedelta" or call.open_ended:
        return None
    given = [*zip(_UNITS, call.positional, strict=False), *call.keywords.items()]
    total = 0.0
    for unit, value in given:
        plain = value.value if isinstance(value, Known) else None
        if unit not in _UNITS or isinstance(plain, bool) or not isinstance(plain, int | float):
            return None
        total += _UNITS[unit] * plain
    return total


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
