"""CFG002: micro-batch, accumulation and ranks disagree with a batch size that another place declares."""

from collections.abc import Iterator

from gpudoctor.analysis.source.config_links import links, world_size
from gpudoctor.analysis.source.declared_settings import Setup
from gpudoctor.analysis.source.training_arguments import deepspeed_configs, training_arguments
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Unavailable
from gpudoctor_checks.config.disagreement import BATCH, mismatch_finding, mismatches, sentence, settings_finding

GLOBAL, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


class BatchMismatch(Check):
    """Two places declare the batch size, and they disagree.

    What it finds:
        - A DeepSpeed config whose `train_batch_size` is not micro-batch x accumulation x ranks. The number of
          ranks is the launch line's, or any.
        - A DeepSpeed config and training arguments with different micro-batches or accumulation.
        - GRPO's completions of a step that are not whole groups of `num_generations`.
    Why it hurts:
        DeepSpeed and transformers compare them when the run starts, and stop if they differ.
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
    """

    code = "CFG002"
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
        for setup in training_arguments(patient):
            yield from self._generations(setup, world)
        for link in links(patient):
            for mismatch in mismatches(link, BATCH):
                yield mismatch_finding(self, mismatch)

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
        yield settings_finding(self, whole, total, micro, steps, breaks=breaks, certain=certain, cure="drop")

    def _generations(self, setup: Setup, world: int | None) -> Iterator[Finding]:
        """TRL's own arithmetic: the completions of a step are whole groups of num_generations."""
        group, micro = setup.get("num_generations"), setup.get("per_device_train_batch_size")
        steps = setup.get("steps_per_generation", STEPS)
        given = [item for item in (group, micro, steps) if item is not None]
        if group is None or setup.get("generation_batch_size") or not all(item.number for item in given):
            return
        total = ((micro.number if micro else 8) or 8) * ((steps.number if steps else 1) or 1) * (world or 1)
        if total % (group.number or 1):
            whole = template("{config} says {key}={value}, and {total:g} completions of a step are not whole groups.")
            text = sentence(whole, setup.title, group, total=total)
            breaks, unsure = say("TRL refuses the batch when the run starts"), Severity.NOTE  # for one process
            yield settings_finding(
                self, text, *given, breaks=breaks, certain=bool(world), severity=unsure, cure="group"
            )
