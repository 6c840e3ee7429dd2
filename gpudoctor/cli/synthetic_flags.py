"""The flags of a synthetic job in `gpudoctor verify`: those of `estimate`, and a DeepSpeed config."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template, term
from gpudoctor.model.external_files import load_json, read_file
from gpudoctor.model.read_limits import CONFIG

if TYPE_CHECKING:
    from gpudoctor.estimate import TrainingJob
    from gpudoctor.estimate.find import FoundModel
    from gpudoctor.estimate.synthetic import RunPlace, Synthetic
    from gpudoctor.estimate.synthetic.deepspeed import Engine

_KNOWN = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization", "bf16", "fp16", "optimizer",
}  # fmt: skip
"""Keys of which every DeepSpeed config has one."""
_SAID = {"batch": "--batch", "accumulate": "--accumulate"}
_OF_COMMAND = say("describes a synthetic job, which has no COMMAND; put a command's own flags after the command")


def add_synthetic_flags(parser: argparse.ArgumentParser) -> None:
    """`--model`, `--deepspeed`, and every field of the job."""
    from gpudoctor.cli.estimate_flags import add_job_flags

    group = parser.add_argument_group("a synthetic job, instead of COMMAND")
    group.add_argument(
        "--model", metavar="MODEL",
        help="train this one on random weights: a size (7b), family and size, config.json, folder or hub id",
    )  # fmt: skip
    group.add_argument("--deepspeed", metavar="FILE", help="train with DeepSpeed by this config")
    add_job_flags(parser, term(template("of a synthetic job")))


def asked(arguments: argparse.Namespace) -> bool:
    """Whether a synthetic job is asked for. Raises `UsageError` where a command is given too."""
    # The flags of a synthetic job that were given.
    from gpudoctor.cli.estimate_flags import flag, job_fields

    found = [f"--{name}" for name in ("model", "deepspeed") if getattr(arguments, name) is not None]
    given = found + ["--set"] * bool(arguments.sets) + [flag(name) for name in job_fields(arguments)]
    if not given:
        return False
    if arguments.words or arguments.script_arguments:
        raise UsageError("{given} {of_command}", given=given[0], of_command=_OF_COMMAND)
    return True


def here() -> "RunPlace":
    """Where it would run. Raises `IncompleteError` without torch, or where the driver does not answer."""
    from gpudoctor.estimate.synthetic.feasibility import need_torch
    from gpudoctor.estimate.synthetic.local_device import here as look

    need_torch()
    return look()


def plan_of(arguments: argparse.Namespace, place: "RunPlace", changes: Mapping[str, Any] | None = None) -> "Synthetic":
    """The job that the flags describe, checked against this machine; `changes` are fields over the flags'.

    Raises `UsageError`, `IncompleteError` for a package that is missing, `NoRoomError`.
    """
    from gpudoctor.cli.estimate_flags import job_fields, shape_numbers
    from gpudoctor.cli.estimate_model import find_model
    from gpudoctor.estimate import TrainingJob
    from gpudoctor.estimate.synthetic.feasibility import plan

    fields = {**job_fields(arguments), **(changes or {})}
    raw, said = _read_deepspeed(arguments.deepspeed, fields)
    found = find_model(arguments.model, shape_numbers(arguments))
    said = [*found.assumptions, *said, *_defaults(found, fields)]
    job = TrainingJob(**fields)
    engine = _engine(raw, found, job, cpu=place.kind == "cpu")
    return plan(
        found.shape, job, place, source=found.path, engine=engine, assumptions=tuple(said),
        engine_path=arguments.deepspeed,
    )  # fmt: skip


def _defaults(found: "FoundModel", fields: dict[str, Any]) -> list[str]:
    """What is filled in where nothing was said; with a sentence each."""
    said = []
    if "method" not in fields:
        fields["method"] = "full"
        said.append(say("--method full, as none was named"))
    longest = found.shape.max_positions
    if "seq" not in fields and found.shape.positions == "learned" and 0 < longest < 2048:
        fields["seq"] = longest
        said.append(
            say("sequence {longest}, the most that {name} has positions for", longest=longest, name=found.shape.name)
        )
    return said


def _engine(raw: Mapping[str, Any] | None, found: "FoundModel", job: "TrainingJob", *, cpu: bool) -> "Engine | None":
    from gpudoctor.estimate.synthetic.deepspeed import ZERO, complete, made

    if raw is not None:
        return complete(raw, found.shape, job, cpu=cpu)
    return made(job, found.shape) if job.parallel in ZERO else None


def _read_deepspeed(path: str | None, fields: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """The config, with what it says put into `fields`. Raises `UsageError` where flags say something else."""
    if path is None:
        return None, []
    from gpudoctor.cli.estimate_model import read_job, settle
    from gpudoctor.estimate.synthetic.deepspeed import batches

    told = read_job([path])
    raw = _parsed(path)
    world = fields.get("gpus", 1) * fields.get("nodes", 1)
    micro, accumulate = batches(raw, world, fields.get("batch"), fields.get("accumulate"), path)
    told.fields |= {"batch": micro, "accumulate": accumulate}
    for name, value in told.fields.items():
        if name in fields and fields[name] != value and name not in _SAID:
            shown = name.replace("_", "-")
            raise UsageError(
                "--{shown} {fields} and {path} ({value}) disagree; remove one of them",
                shown=shown,
                fields=fields[name],
                path=path,
                value=value,
            )
    settled = settle({key: value for key, value in fields.items() if key not in _SAID}, told)
    low = raw.get("bf16"), raw.get("fp16")
    if any(isinstance(section, dict) and section.get("enabled") is True for section in low):
        settled["master_weights"] = True
    fields.clear()
    fields |= settled
    return raw, told.assumptions


def _parsed(path: str) -> dict[str, Any]:
    """The file as DeepSpeed reads it: plain JSON."""
    try:
        raw = load_json(read_file(path, CONFIG).decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UsageError(
            "--deepspeed {path}: DeepSpeed reads plain JSON, and this is not JSON: {error}", path=path, error=error
        ) from None
    if not isinstance(raw, dict) or not _KNOWN & raw.keys():
        raise UsageError(
            "--deepspeed {path} is not a DeepSpeed config (no batch size, zero_optimization or optimizer)", path=path
        )
    return raw
