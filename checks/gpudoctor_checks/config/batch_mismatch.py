"""CFG002: micro-batch, accumulation and ranks disagree with a batch size that another place declares."""

from collections.abc import Iterator

from gpudoctor.analysis.source.config_links import Link, launched_accelerate, links, only_named, world_size
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.declared_settings import Setup, Written, from_entry, from_keyword
from gpudoctor.analysis.source.training_arguments import deepspeed_configs
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, Finding, Measurement, Patient, Provenance, Reads, Severity, Unavailable
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Source
from gpudoctor_checks.config.disagreement import BATCH, REFUSED, mismatches, sentence, settings_finding

GLOBAL, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


class BatchMismatch(Check):
    """Two places declare the batch size, and they disagree.

    What it finds:
        - A DeepSpeed config whose `train_batch_size` is not micro-batch x accumulation x ranks. The number of
          ranks is the launch line's, or any.
        - A DeepSpeed config and training arguments with different micro-batches or accumulation.
        - Accumulation set in an accelerate config and in the script.
        - Axolotl's `batch_size` together with `gradient_accumulation_steps`.
    Why it hurts:
        DeepSpeed and transformers compare them when the run starts, and stop if they differ. accelerate does
        not compare: the run silently uses one of the two. Its batch size and learning curve are then not the
        intended ones.
    How it knows:
        It reads both files and resolves "auto" to the other side. It compares only linked files: one names the
        other, the launch line names both, or no others were given.
    False alarms:
        A config that a wrapper rewrites before the run. A value from an option's default is only suspected,
        because a launch line may change it.
    Remedies:
        Set "auto" in the DeepSpeed config, so that only one place sets the value.
    References:
        - https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters
        - https://huggingface.co/docs/transformers/deepspeed
        - https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
    """

    code = Code("CFG002")
    name = "batch-mismatch"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        configs = optional(lambda: patient.configs)
        source = optional(lambda: patient.source)
        if configs is None and source is None:
            raise Unavailable(say("no config and no script was given"))
        world = world_size(patient)
        for setup in deepspeed_configs(patient):
            yield from self._itself(setup, world)
        for link in links(patient):
            for mismatch in mismatches(link, BATCH):
                text = say("{sentence}.", sentence=mismatch.sentence)
                items = (mismatch.engine, mismatch.argument)
                yield self._found(text, *items, breaks=REFUSED, certain=mismatch.certain, cure="auto")
            yield from self._product(link, world)
        for file in configs.of(ConfigKind.AXOLOTL) if configs is not None else ():
            both = [file.entries.get("batch_size"), file.entries.get(STEPS)]
            if all(entry is not None and entry.number for entry in both):
                total, steps = (from_entry(file, entry) for entry in both if entry is not None)
                text = say(
                    "batch_size={batch_size} and {key}={steps} are both set; axolotl accepts only one of them.",
                    batch_size=total.shown,
                    key=STEPS,
                    steps=steps.shown,
                )
                yield self._found(text, total, steps, breaks=say("axolotl refuses the config"), cure="none")
        yield from self._accelerate(patient, source)

    def _itself(self, setup: Setup, world: int | None) -> Iterator[Finding]:
        """DeepSpeed's own arithmetic: train = micro x accumulation x ranks."""
        total, micro, steps = setup.get(GLOBAL), setup.get(MICRO), setup.get(STEPS)
        elastic = setup.get("elasticity.enabled")
        if total is None or micro is None or (elastic is not None and not elastic.off):
            return
        if total.number is None or micro.number is None or micro.number <= 0:
            return
        if steps is not None and steps.number is None:
            return
        product = micro.number * (steps.number if steps is not None and steps.number else 1)
        counted = f"{micro.shown} x {steps.shown}" if steps is not None else f"{micro.shown}"
        certain = True
        if product and total.number % product:
            text = say("{counted} does not divide {shown} for any number of ranks", counted=counted, shown=total.shown)
        elif steps is not None and world and product * world != total.number:
            text = say(
                "{counted} on {world} ranks are {product:g}", counted=counted, world=world, product=product * world
            )
            certain = bool(world % (total.number // product))  # else model parallelism may explain it
        else:
            return
        whole = sentence(template("{config} says {key}={value}, and {mismatch}."), setup.title, total, mismatch=text)
        breaks = say("DeepSpeed refuses the batch sizes when the run starts")
        yield self._found(whole, total, micro, steps, breaks=breaks, certain=certain, cure="drop")

    def _product(self, link: Link, world: int | None) -> Iterator[Finding]:
        """DeepSpeed's train_batch_size against the training arguments."""
        total = link.deepspeed.get(GLOBAL)
        if total is None or total.number is None:
            return
        micro = link.arguments.get("per_device_train_batch_size")
        steps = link.arguments.get(STEPS)
        if any(item is not None and item.number is None for item in (micro, steps)):
            return
        if not link.arguments.whole and (micro is None or steps is None):
            return
        one = (micro.number if micro is not None else None) or 8
        product = one * ((steps.number if steps is not None else None) or 1)
        if world and product * world != total.number:
            text = say("{product:g} on {world} ranks", product=product * world, world=world)
        elif not world and total.number % product:
            text = say("{product:g} per rank, which does not divide it", product=product)
        else:
            return
        whole = sentence(
            template("{config} says {key}={value}, {arguments} makes {product}."),
            link.deepspeed.title,
            total,
            arguments=link.arguments.title,
            product=text,
        )
        certain = link.sure and all(item is None or item.sure for item in (micro, steps))
        yield self._found(whole, total, micro, steps, breaks=REFUSED, certain=certain, cure="auto")

    def _accelerate(self, patient: Patient, source: Source | None) -> Iterator[Finding]:
        """Accumulation in an accelerate config against the script's Accelerator."""
        file = _accelerate_file(patient)
        entry = file.get("deepspeed_config.gradient_accumulation_steps", STEPS) if file is not None else None
        if source is None or file is None or entry is None or entry.number is None:
            return
        declared = from_entry(file, entry)
        for script in source.scripts:
            for call in script.calls:
                if call.name not in {"accelerate.Accelerator", "accelerate.accelerator.Accelerator"}:
                    continue
                passed = from_keyword(script, call, STEPS)
                if passed is None or not passed.sure or switched_off(source, call) or passed.number is None:
                    continue
                if passed.number != declared.number:
                    text = template(
                        "{path} says {key}={value}, the script's Accelerator gets {passed}; the config wins."
                    )
                    text = sentence(text, file.path, declared, passed=passed.shown)
                    yield self._found(text, passed, declared, cure="none")

    def _found(
        self, message: str, *items: Written | None, breaks: str = "", certain: bool = True, cure: str
    ) -> Finding:
        numbers = tuple(
            Measurement(name=item.key, value=item.number, unit="{sample}", provenance=Provenance.DECLARED)
            for item in items
            if item is not None and item.number is not None
        )
        return settings_finding(self, message, *items, numbers=numbers, breaks=breaks, certain=certain, cure=cure)


def _accelerate_file(patient: Patient) -> ConfigFile | None:
    """The accelerate config of this job: the launch line's, or the only one that was named."""
    job = optional(lambda: patient.job)
    for launch in job.launches if job is not None else ():
        if launch.launcher == "accelerate":
            file = launched_accelerate(patient, launch)
            if file is not None:
                return file
    configs = optional(lambda: patient.configs)
    return only_named(patient, configs, ConfigKind.ACCELERATE) if configs is not None else None
