"""CFG003: optimizer, learning rate or schedule are set twice, and differently."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.config_links import Link, launched_engine, links, named, same_file
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.declared_settings import Setup, Written, from_entry
from gpudoctor.analysis.source.syntax import keyword_value
from gpudoctor.analysis.source.training_arguments import deepspeed_configs
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    Patient,
    Reads,
    Setting,
    Severity,
    SourceSpan,
)
from gpudoctor.model.signs.configs import CanonicalValue, ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Call, Script, Source
from gpudoctor_checks.config.matching import OPTIMISATION, Mismatch, mismatches

FAMILIES = ("adam", "lamb", "lion", "sgd", "adagrad", "adafactor", "muon", "rmsprop", "galore", "lomo", "apollo")
"""Optimizers that are not each other; `adamw_torch` and DeepSpeed's `AdamW` are one."""

SCHEDULES = {
    "cosine": {"WarmupCosineLR"},
    "linear": {"WarmupDecayLR"},
    "constant": {"WarmupLR"},
    "constant_with_warmup": {"WarmupLR"},
}
"""transformers' lr_scheduler_type and the DeepSpeed scheduler of the same shape."""

OWN_RATES = re.compile(r"(train(ing)?|train_args|optim(izer|ization)?|trainer|hparams|hyperparameters|solver)\Z")
"""Sections of somebody's own config that speak of the run's one learning rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerMismatchDetail(Detail):
    """What the rule reads."""

    cure: str
    """A word for what helps; the rule has them."""


class OptimizerMismatch(Check):
    """Optimizer, learning rate or schedule are set twice, and differently.

    What it finds:
        - A learning rate, weight decay, epsilon, gradient clipping or warm-up in a DeepSpeed config that
          differs from the training arguments.
        - An `optim` or `lr_scheduler_type` next to a DeepSpeed config that has its own optimizer or scheduler
          of another kind.
        - An optimizer in the script and in the DeepSpeed config.
        - Two different learning rates in the sections of one config.
    Why it hurts:
        transformers and accelerate compare the numbers and refuse to start. They do not compare optimizer and
        schedule: DeepSpeed's are used. Those in the training arguments have no effect, although people tune
        them.
    How it knows:
        It reads the linked files and resolves "auto" to the training arguments. The defaults of a plain
        `TrainingArguments` call count, since transformers compares those too.
    False alarms:
        A config that a wrapper rewrites before the run; sections of your own config for different parameter
        groups.
    Remedies:
        Set "auto" in the DeepSpeed config, or remove its optimizer; keep one learning rate.
    References:
        - https://huggingface.co/docs/transformers/deepspeed
        - https://huggingface.co/docs/accelerate/usage_guides/deepspeed
        - https://www.deepspeed.ai/docs/config-json/#optimizer-parameters
    """

    code = Code("CFG003")
    name = "optimizer-mismatch"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        for link in links(patient):
            for mismatch in mismatches(link, OPTIMISATION):
                yield self._between(mismatch)
            yield from self._kinds(link)
        for file in configs.files:
            yield from self._sections(file)
        yield from self._in_source(patient, source)

    def _between(self, mismatch: Mismatch) -> Finding:
        items = (mismatch.engine, mismatch.argument)
        return self._found(
            mismatch.sentence + ".",
            tuple(item for item in items if item is not None),
            breaks=say("transformers refuses the mismatch when the run starts"),
            certain=mismatch.certain,
            cure="auto",
        )

    def _kinds(self, link: Link) -> Iterator[Finding]:
        """Optimizer and schedule, which nobody compares: DeepSpeed's run."""
        engine, wanted = link.deepspeed.get("optimizer.type"), link.arguments.get("optim")
        if engine is not None and wanted is not None and engine.known and wanted.known and wanted.value:
            one, two = _family(str(engine.value)), _family(str(wanted.value))
            if one and two and one != two:
                yield self._ignored(link, engine, wanted)
        schedule, shape = link.deepspeed.get("scheduler.type"), link.arguments.get("lr_scheduler_type")
        if schedule is None or shape is None or not schedule.known or not shape.known or not shape.value:
            return
        alike = SCHEDULES.get(str(shape.value).lower())
        if alike is not None and str(schedule.value) not in alike | {"OneCycle", "LRRangeTest"}:
            yield self._ignored(link, schedule, shape)

    def _ignored(self, link: Link, engine: Written, argument: Written) -> Finding:
        return self._found(
            say(
                "{config} says {key}={value} and {arguments} says "
                "{other_key}={other_value}; DeepSpeed's value is used, the other has no effect.",
                config=link.deepspeed.title,
                key=engine.key,
                value=engine.shown,
                arguments=link.arguments.title,
                other_key=argument.key,
                other_value=argument.shown,
            ),
            (argument, engine),
            certain=False,
            cure="one",
        )

    def _sections(self, file: ConfigFile) -> Iterator[Finding]:
        """Two learning rates in sections that both speak of the whole run."""
        if file.kind is not ConfigKind.SECTIONS:
            return
        rates = [item for item in file.meaning("learning_rate") if _speaks_of_the_run(item)]
        if len(rates) == 2 and rates[0].number != rates[1].number:
            one, two = (from_entry(file, item.entry) for item in rates)
            yield self._found(
                say(
                    "{path} says {key}={value} and {other_key}={other_value}.",
                    path=file.path,
                    key=one.key,
                    value=one.shown,
                    other_key=two.key,
                    other_value=two.shown,
                ),
                (one, two),
                certain=False,
                cure="one",
            )

    def _in_source(self, patient: Patient, source: Source) -> Iterator[Finding]:
        engines = [item for item in deepspeed_configs(patient) if item.get("optimizer.type") is not None]
        if not engines:
            return
        for script in source.scripts:
            for call in script.calls_to("deepspeed.initialize"):
                engine = _engine_of(patient, script, call, engines)
                if engine is not None and _passes_optimizer(call) and not switched_off(source, call):
                    yield self._twice(engine, call)
            yield from self._accelerate(patient, script, engines)

    def _twice(self, engine: Setup, call: Call) -> Finding:
        item = engine.items["optimizer.type"]
        return self._found(
            say(
                "deepspeed.initialize gets an optimizer, and {title} says {key}={shown}; the "
                "script's optimizer is used, the config's has no effect.",
                title=engine.title,
                key=item.key,
                shown=item.shown,
            ),
            (item,),
            extra=(call.span,),
            certain=False,
            cure="drop",
        )

    def _accelerate(self, patient: Patient, script: Script, engines: list[Setup]) -> Iterator[Finding]:
        """accelerate takes either the config's optimizer or the script's."""
        if "DummyOptim" in script.text:
            return
        optimizer = next((call for call in script.calls if call.name.startswith("torch.optim.")
                          and call.name.count(".") == 2 and call.method[:1].isupper()), None)  # fmt: skip
        prepares = next((call for call in script.calls if call.name.endswith("Accelerator.prepare")), None)
        job = optional(lambda: patient.job)
        if optimizer is None or prepares is None or job is None:
            return
        for launch in job.launches:
            engine = launched_engine(patient, launch, engines) if launch.launcher == "accelerate" else None
            if engine is not None:
                item = engine.items["optimizer.type"]
                yield self._found(
                    say(
                        "{title} says {key}={shown}, the script prepares {method}.",
                        title=engine.title,
                        key=item.key,
                        shown=item.shown,
                        method=optimizer.method,
                    ),
                    (item,),
                    extra=(optimizer.span,),
                    breaks=say("accelerate refuses an optimizer in both the config and the code"),
                    certain=not prepares.open_ended,
                    cure="drop",
                )

    def _found(
        self,
        message: str,
        items: tuple[Written, ...],
        *,
        extra: tuple[SourceSpan, ...] = (),
        breaks: str = "",
        certain: bool = True,
        cure: str,
    ) -> Finding:
        places: tuple[SourceSpan | Setting, ...] = (*(item.place for item in items), *extra)
        return self.finding(
            message,
            evidence=places,
            confidence=Confidence.SUSPECTED,
            severity=Severity.ERROR if certain else Severity.WARNING,
            cost=Cost(breaks=breaks) if certain and breaks else None,
            subject=f"{places[0].path}:{places[0].line} {items[0].key}",
            detail=OptimizerMismatchDetail(cure=cure),
        )


def _family(name: str) -> str:
    """Which of the optimizers a name means; "" for a name of neither."""
    lowered = name.lower().replace("_", "")
    if "adafactor" in lowered or "adagrad" in lowered:
        return "adafactor" if "adafactor" in lowered else "adagrad"
    return next((family for family in FAMILIES if family in lowered), "")


def _speaks_of_the_run(item: CanonicalValue) -> bool:
    outer = [part.lower() for part in item.entry.parts[:-1]]
    return not outer or (len(outer) == 1 and bool(OWN_RATES.match(outer[0])))


def _passes_optimizer(call: Call) -> bool:
    node = keyword_value(call.node, "optimizer")
    return node is not None and getattr(node, "value", "") is not None


def _engine_of(patient: Patient, script: Script, call: Call, engines: list[Setup]) -> Setup | None:
    """The config that a call of deepspeed.initialize takes: its dict, its file, or the launch line's."""
    for engine in engines:
        if engine.call is call:
            return engine
    given = call.keywords.get("config") or call.keywords.get("config_params")
    name = getattr(given, "value", None)
    if isinstance(name, str):
        return same_file(name, script.path, engines)
    job = optional(lambda: patient.job)
    for launch in job.launches if job is not None else ():
        found = launched_engine(patient, launch, engines)
        if found is not None:
            return found
    files = [item for item in engines if item.kind is ConfigKind.DEEPSPEED and named(patient, item.path)]
    only = len(list(script.calls_to("deepspeed.initialize"))) == 1 and named(patient, script.path)
    return files[0] if len(files) == 1 and given is None and only else None
