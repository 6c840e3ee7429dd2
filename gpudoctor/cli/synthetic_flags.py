"""The flags of a synthetic job in `gpudoctor verify`: those of `estimate`."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template, term

if TYPE_CHECKING:
    from gpudoctor.estimate.find import FoundModel
    from gpudoctor.estimate.synthetic import RunPlace, Synthetic

_OF_COMMAND = say("describes a synthetic job, which has no COMMAND; put a command's own flags after the command")


def add_synthetic_flags(parser: argparse.ArgumentParser) -> None:
    """`--model`, and every field of the job."""
    from gpudoctor.cli.estimate_flags import add_job_flags

    group = parser.add_argument_group("a synthetic job, instead of COMMAND")
    group.add_argument(
        "--model", metavar="MODEL",
        help="train this one on random weights: a size (7b), family and size, config.json, folder or hub id",
    )  # fmt: skip
    add_job_flags(parser, term(template("of a synthetic job")))


def asked(arguments: argparse.Namespace) -> bool:
    """Whether a synthetic job is asked for. Raises `UsageError` where a command is given too."""
    # The flags of a synthetic job that were given.
    from gpudoctor.cli.estimate_flags import flag, job_fields

    given = ["--model"] if arguments.model is not None else []
    given += ["--set"] * bool(arguments.sets) + [flag(name) for name in job_fields(arguments)]
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
    found = find_model(arguments.model, shape_numbers(arguments))
    said = [*found.assumptions, *_defaults(found, fields)]
    job = TrainingJob(**fields)
    return plan(found.shape, job, place, source=found.config, assumptions=tuple(said))


def _defaults(found: "FoundModel", fields: dict[str, Any]) -> list[str]:
    """What is filled in where nothing was said; with a sentence each."""
    from gpudoctor.cli.estimate_model import few_positions

    said = []
    if "method" not in fields:
        fields["method"] = "full"
        said.append(say("--method full, as none was named"))
    return [*said, *few_positions(found.shape, fields)]
