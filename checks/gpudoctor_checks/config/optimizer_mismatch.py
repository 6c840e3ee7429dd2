"""CFG003: optimizer, learning rate or schedule are set twice, and differently."""

import re
from collections.abc import Iterator

from gpudoctor.analysis.source.config_links import Link, launched_engine, links, named, same_file
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.declared_settings import Setup, Written, from_entry
from gpudoctor.analysis.source.syntax import keyword_value
from gpudoctor.analysis.source.training_arguments import deepspeed_configs
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, SourceSpan
from gpudoctor.model.signs.configs import CanonicalValue, ConfigKind
from gpudoctor.model.signs.source import Call, Script, Source
from gpudoctor_checks.config.disagreement import OPTIMISATION, REFUSED, mismatches, sentence, settings_finding

FAMILIES = ("adafactor", "adagrad", "adam", "lamb", "lion", "sgd", "muon", "rmsprop", "galore", "lomo", "apollo")
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
                text, items = mismatch.sentence + ".", (mismatch.engine, mismatch.argument)
                yield self._found(text, *items, breaks=REFUSED, certain=mismatch.certain, cure="auto")
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
                yield self._found(text, argument, engine, cure="one")
        for file in configs.of(ConfigKind.SECTIONS):
            # Two learning rates in sections that both speak of the whole run.
            rates = [item for item in file.meaning("learning_rate") if _speaks_of_the_run(item)]
            if len(rates) == 2 and rates[0].number != rates[1].number:
                one, two = (from_entry(file, item.entry) for item in rates)
                text = template("{path} says {key}={value} and {other_key}={other_value}.")
                yield self._found(sentence(text, file.path, one, two), one, two, cure="one")
        yield from self._in_source(patient, source)

    def _in_source(self, patient: Patient, source: Source) -> Iterator[Finding]:
        engines = [item for item in deepspeed_configs(patient) if item.get("optimizer.type") is not None]
        for script in source.scripts if engines else ():
            for call in script.calls_to("deepspeed.initialize"):
                engine = _engine_of(patient, script, call, engines)
                given = keyword_value(call.node, "optimizer")
                passed = given is not None and getattr(given, "value", "") is not None
                if engine is not None and passed and not switched_off(source, call):
                    text = template(
                        "deepspeed.initialize gets an optimizer, and {title} says {key}={shown}; the "
                        "script's optimizer is used, the config's has no effect."
                    )
                    item = engine.items["optimizer.type"]
                    yield self._found(sentence(text, engine.title, item), item, call.span, cure="drop")
            yield from self._accelerate(patient, script, engines)

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
                    sentence(
                        template("{title} says {key}={shown}, the script prepares {method}."),
                        engine.title,
                        item,
                        method=optimizer.method,
                    ),
                    item,
                    optimizer.span,
                    breaks=say("accelerate refuses an optimizer in both the config and the code"),
                    certain=not prepares.open_ended,
                    cure="drop",
                )

    def _found(
        self,
        message: str,
        first: Written,
        *others: Written | SourceSpan | None,
        breaks: str = "",
        certain: bool = True,
        cure: str,
    ) -> Finding:
        subject = f" {first.key}"
        return settings_finding(
            self, message, first, *others, breaks=breaks, certain=certain, cure=cure, subject=subject
        )


def _kinds(link: Link) -> Iterator[tuple[Written, Written]]:
    """Optimizer and schedule of DeepSpeed and of the arguments, which nobody compares: DeepSpeed's run."""
    engine, wanted = link.deepspeed.get("optimizer.type"), link.arguments.get("optim")
    if engine is not None and wanted is not None and engine.known and wanted.known and wanted.value:
        one, two = _family(str(engine.value)), _family(str(wanted.value))
        if one and two and one != two:
            yield engine, wanted
    schedule, shape = link.deepspeed.get("scheduler.type"), link.arguments.get("lr_scheduler_type")
    if schedule is None or shape is None or not schedule.known or not shape.known or not shape.value:
        return
    alike = SCHEDULES.get(str(shape.value).lower())
    if alike is not None and str(schedule.value) not in alike | {"OneCycle", "LRRangeTest"}:
        yield schedule, shape


def _family(name: str) -> str:
    """Which of the optimizers a name means; "" for a name of neither."""
    lowered = name.lower().replace("_", "")
    return next((family for family in FAMILIES if family in lowered), "")


def _speaks_of_the_run(item: CanonicalValue) -> bool:
    outer = [part.lower() for part in item.entry.parts[:-1]]
    return not outer or (len(outer) == 1 and bool(OWN_RATES.match(outer[0])))


def _engine_of(patient: Patient, script: Script, call: Call, engines: list[Setup]) -> Setup | None:
    """The config that a call of deepspeed.initialize takes: its dict, its file, or the launch line's."""
    given = call.keywords.get("config") or call.keywords.get("config_params")
    name = getattr(given, "value", None)
    if isinstance(name, str):
        return same_file(name, script.path, engines)
    own = [engine for engine in engines if engine.call is call]
    job = optional(lambda: patient.job)
    own += [found for launch in (job.launches if job else ()) if (found := launched_engine(patient, launch, engines))]
    files = [item for item in engines if item.kind is ConfigKind.DEEPSPEED and named(patient, item.path)]
    only = len(list(script.calls_to("deepspeed.initialize"))) == 1 and named(patient, script.path)
    if not own and given is None and only and len(files) == 1:
        own = files
    return own[0] if own else None
