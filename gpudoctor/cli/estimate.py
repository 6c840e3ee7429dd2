"""`gpudoctor estimate`: the GPU memory of a job before it runs; nothing is run or loaded for it."""

import argparse
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudoctor.cli.output import add_color_flag, add_format_flags, deliver_text, driver_cards, look
from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template, term

if TYPE_CHECKING:
    from gpudoctor.estimate import Device, Estimate, ModelShape, TrainingJob
    from gpudoctor.estimate.answer import Answer
    from gpudoctor.estimate.find import FoundModel

FORMATS = ("text", "json", "markdown")
_FILES = {".py", ".ipynb", ".json", ".yaml", ".yml", ".toml", ".sh", ".sbatch"}
_COUNTED = re.compile(r"(\d{1,6})\s*[xX*]\s*(\S.*)")
"""Several cards in one word: 2x24GiB, 8 x H100."""
_SHARED = "fsdp2"
"""Data parallelism on several GPUs where none is named: what torch itself recommends for large models."""

EPILOG = template("""\
examples:
  gpudoctor estimate --model 7b                              full, LoRA and QLoRA
  gpudoctor estimate --model llama-3-8b --method qlora --gpu "RTX 4090" --seq 4k
  gpudoctor estimate --model ./my-model --gpu 24GiB --fit    what fits this card
  gpudoctor estimate train.yaml ds_config.json --gpus 8      the job of training configs
defaults: sequence 2048, batch 1, bf16, AdamW, checkpointing, SDPA, transformers 5 with PEFT and bitsandbytes.
network: only for a hub id that is neither known nor cached; only its config.json is fetched.
exit codes: 0 it fits or no card is named, 1 it does not fit, 2 wrong usage.""")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `estimate`."""
    from gpudoctor.cli.estimate_flags import add_job_flags

    parser.usage = "gpudoctor estimate [--model MODEL] [--gpu NAME|BYTES] [options] [CONFIG ...]"
    parser.epilog = EPILOG
    parser.add_argument(
        "targets", nargs="*", metavar="CONFIG", help="training configs that describe the job, or a model"
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="size (7b), family and size (llama-3-8b), config.json, folder or hub id"
    )
    parser.add_argument("--gpu", metavar="NAME|BYTES", help="the card: H100, RTX 4090, 24GiB, 80GB; several: 2x24GiB")
    more = parser.add_argument_group("more answers")
    more.add_argument("--fit", action="store_true", help="list the settings that fit the card, fastest first")
    more.add_argument("--explain", action="store_true", help="show every formula with its numbers and its source")
    more.add_argument(
        "--trace", action="store_true",
        help="trace transformers' own code on fake tensors (needs torch)",
    )  # fmt: skip
    report = parser.add_argument_group("report")
    add_format_flags(report, FORMATS, template("write the answer to FILE (-: standard output)"))
    add_color_flag(report)
    add_job_flags(parser, term(template("the job")))


def run(arguments: argparse.Namespace) -> int:
    """Answer and print; 1 when a card is named (or is the machine's own) and nothing asked for fits."""
    if arguments.script_arguments:
        raise UsageError("estimate runs no script; remove what follows --")
    if arguments.output is not None:
        from gpudoctor.cli.reporting import check_output

        check_output(arguments)
    _count_cards(arguments)
    answer = _answer(arguments)
    deliver_text(_render(answer, arguments), arguments)
    return 1 if answer.fits is False and not answer.own else 0


def _count_cards(arguments: argparse.Namespace) -> None:
    """Take `--gpu 2x24GiB` for `--gpu 24GiB --gpus 2`."""
    counted = _COUNTED.fullmatch(arguments.gpu or "")
    if counted is None:
        return
    cards = int(counted[1])
    if cards < 1 or arguments.gpus not in (None, cards):
        raise UsageError(
            f"--gpu {arguments.gpu} names {cards} GPUs and --gpus {arguments.gpus}; give one number"
            if cards
            else f"--gpu {arguments.gpu} is below 1; give 1 or more"
        )
    arguments.gpu, arguments.gpus = counted[2], cards


def _shared_out(fields: dict[str, Any]) -> list[str]:
    """Of a training on several GPUs that says nothing of data parallelism: FSDP2, and that it was assumed."""
    cards = fields.get("gpus", 1) * fields.get("nodes", 1)
    split = fields.get("tp", 1) * fields.get("pp", 1) * fields.get("cp", 1)
    if "parallel" in fields or fields.get("mode") == "inference" or split < 1 or cards <= split:
        return []
    if fields.get("stack") == "megatron":
        fields["parallel"] = "ddp"
        return [say("--parallel ddp, as Megatron does; zero1 is its --use-distributed-optimizer")]
    fields["parallel"] = _SHARED
    return [
        f"--parallel {_SHARED}: weights, gradients and optimizer states are sharded over the "
        f"{cards // split} GPUs;"
        " ddp keeps all of them on each"
    ]


def _answer(arguments: argparse.Namespace) -> "Answer":
    from gpudoctor.cli.estimate_model import few_positions
    from gpudoctor.estimate import device as find_device
    from gpudoctor.estimate.answer import Answer

    named = find_device(arguments.gpu) if arguments.gpu is not None else None
    card, said = (named, "") if named is not None else _own_card()
    own = card is not None and named is None
    try:
        found, fields, assumptions = _asked(arguments)
    except UsageError as error:
        from gpudoctor.estimate.config_json import UnknownArchitecture

        if not arguments.trace or not isinstance(error, UnknownArchitecture):
            raise
        from gpudoctor.cli.estimate_trace import unknown_answer

        return unknown_answer(error, card, own, arguments)
    shape = found.shape
    assumptions += few_positions(shape, fields)
    jobs = _jobs(found, fields)
    if arguments.trace:
        from gpudoctor.cli.estimate_trace import traced_answer

        assumptions += [said] if said else []
        return traced_answer(shape.name, shape, found.config, jobs, card, own, assumptions, arguments)
    estimates, left_out = _estimates(shape, jobs, card, several="method" not in fields)
    said_once = dict.fromkeys(text for each in estimates for text in each.assumptions)
    assumptions += [*left_out, *said_once, *([said] if said else [])]
    answer = Answer(
        shape=shape, estimates=estimates, device=card, own=own,
        common=() if card is not None else _common(estimates), assumptions=tuple(assumptions),
    )  # fmt: skip
    return _advised(answer, arguments)


def _asked(arguments: argparse.Namespace) -> tuple["FoundModel", dict[str, Any], list[str]]:
    """The model, the job's fields, and what was assumed, from flags and configs."""
    from gpudoctor.cli.estimate_flags import job_fields, shape_numbers
    from gpudoctor.cli.estimate_model import find_model

    fields, numbers, model = job_fields(arguments), shape_numbers(arguments), arguments.model
    targets, assumptions = list(arguments.targets), []
    if len(targets) == 1 and model is None and not numbers:
        alone = Path(targets[0])
        if not os.path.isfile(alone) and alone.suffix.lower() not in _FILES:
            model, targets = targets[0], []  # `gpudoctor estimate 7b`, or a model's folder
    if targets:
        from gpudoctor.cli.estimate_model import read_job, settle

        told = read_job(targets)
        fields = settle(fields, told)
        assumptions = told.assumptions
        if model is None and not numbers:
            model = told.model
        if model is None and not numbers:
            raise UsageError(
                "{targets}: it names no model; add --model (7b, llama-3-8b, a config.json)", targets=", ".join(targets)
            )
    found = find_model(model, numbers)
    return found, fields, [*found.assumptions, *assumptions, *_shared_out(fields)]


def _jobs(found: "FoundModel", fields: dict[str, Any]) -> list["TrainingJob"]:
    """The job of the method that was named, or the usual three; a quantized checkpoint has one way only."""
    from gpudoctor.estimate import TrainingJob
    from gpudoctor.estimate.fit import METHODS

    if "method" in fields or fields.get("mode") == "inference":
        return [TrainingJob(**fields)]
    if found.quantized in {"gptq", "awq"} and "method" not in fields:
        return [TrainingJob(**fields, method="gptq-lora")]
    if found.shape.kind == "vision":
        return [TrainingJob(**fields)]
    jobs, refused = [], []
    for method in METHODS:
        try:
            jobs.append(TrainingJob(**fields, method=method))
        except UsageError as error:
            refused.append(error)
    if not jobs:
        raise refused[0]
    return jobs


def _estimates(
    shape: "ModelShape", jobs: Sequence["TrainingJob"], card: "Device | None", *, several: bool
) -> tuple[tuple["Estimate", ...], list[str]]:
    """Each job's memory; of several, one that the model cannot do is left out with its reason."""
    from gpudoctor.estimate import estimate_job

    done, left_out = [], []
    for job in jobs:
        try:
            done.append(estimate_job(shape, job, card))
        except UsageError as error:
            if not several or job is jobs[0]:
                raise
            left_out.append(say("{method} is left out: {error}", method=job.method, error=error))
    return tuple(done), left_out


def _own_card() -> tuple["Device | None", str]:
    """The machine's own card by the driver's files: NVML would take longer than the whole answer."""
    from gpudoctor.estimate import device as find_device

    for name in dict.fromkeys(driver_cards()):
        with suppress(UsageError):
            return find_device(name), say("the card is this machine's own, {name}", name=name)
    return None, ""


def _common(estimates: tuple["Estimate", ...]) -> tuple[tuple["Device", tuple[Any, ...]], ...]:
    """Verdicts on cards that people have, where none was named."""
    from gpudoctor.estimate import COMMON
    from gpudoctor.estimate import device as find_device
    from gpudoctor.estimate.card import read_card

    rows = []
    for name in COMMON:
        card = find_device(name)
        verdicts = tuple(read_card(each.job, each.instants, each.peak, each.reach, card).verdict for each in estimates)
        rows.append((card, verdicts))
    return tuple(rows)


def _advised(answer: "Answer", arguments: argparse.Namespace) -> "Answer":
    """The answer with what was asked for beside it, and what to do next where a card is known."""
    from gpudoctor.estimate.fit import METHODS, cuts, fits, room, search

    shown, card = answer.shown, answer.device
    if card is None:
        if arguments.fit:
            raise UsageError("--fit needs a card: --gpu H100, --gpu 24GiB (this machine has no known card)")
        return answer
    if arguments.fit:
        if shown.job.mode == "inference":
            raise UsageError(
                "--fit searches training jobs; for inference, read the largest batch and context in the answer"
            )
        methods = [each.job.method for each in answer.estimates]
        found = search(answer.shape, answer.estimates[0].job, card, methods)
        if not found.best and len(methods) == 1:
            found = search(answer.shape, answer.estimates[0].job, card, list(dict.fromkeys([*methods, *METHODS])))
        return replace(answer, found=found)
    if fits(shown):
        return replace(answer, room=room(answer.shape, shown.job, card))
    return replace(answer, cuts=cuts(shown, card) if shown.job.mode == "train" else ())


def _render(answer: "Answer", arguments: argparse.Namespace) -> str:
    if arguments.format == "json":
        from gpudoctor.report.estimate_json import render_estimate

        return render_estimate(answer)
    if arguments.format == "markdown":
        from gpudoctor.report.markdown import render_estimate as render_comment

        return render_comment(answer, explain=arguments.explain)
    from gpudoctor.ui.estimate_text import render_estimate_text

    width, colour = look(arguments)
    return render_estimate_text(answer, width=width, colour=colour, explain=arguments.explain)
