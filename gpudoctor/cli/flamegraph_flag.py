"""`--flamegraph FILE` of `run`, `report` and `watch`: the training thread by phase, in two formats."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.output import tell, write_file
from gpudoctor.errors import UsageError
from gpudoctor.lang import say

if TYPE_CHECKING:
    from gpudoctor.model.flames import FlameProfile
    from gpudoctor.model.signs.recording import Recording


def add_flamegraph_flag(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """The flag."""
    parser.add_argument(
        "--flamegraph",
        metavar="FILE",
        help="write the training thread's stacks by phase: .json (speedscope) or .folded (collapsed stacks)",
    )


def check_flamegraph(arguments: argparse.Namespace) -> None:
    """Refuse a name whose format is not known before anything is run. Raises `UsageError`."""
    from gpudoctor.report.flamegraph import COLLAPSED, SPEEDSCOPE

    name = arguments.flamegraph
    if name is None:
        return
    path = Path(name)
    if path.suffix.lower() not in SPEEDSCOPE + COLLAPSED:
        raise UsageError(
            say(
                "--flamegraph {name}: the ending says the format; use .json (speedscope) or .folded (collapsed stacks)",
                name=name,
            )
        )
    if not path.parent.is_dir():
        raise UsageError(say("--flamegraph {name}: the folder {parent} does not exist", name=name, parent=path.parent))


def flamegraph_text(profiles: "Sequence[FlameProfile]", title: str, arguments: argparse.Namespace) -> str:
    """The file's text, by its ending; "" where there is no sample."""
    from gpudoctor.report.flamegraph import SPEEDSCOPE, collapsed, speedscope

    if not profiles:
        return ""
    if Path(arguments.flamegraph).suffix.lower() in SPEEDSCOPE:
        return speedscope(title, profiles, share=arguments.share)
    return collapsed(profiles, share=arguments.share)


def recorded_flamegraph(recording: "Recording", title: str, arguments: argparse.Namespace) -> str:
    """The text for a recording."""
    from gpudoctor.analysis.run.flame_stacks import flame_profiles

    return flamegraph_text(flame_profiles(recording), title, arguments)


def write_flamegraph(text: str, arguments: argparse.Namespace) -> None:
    """Write the file, or say why there is none."""

    if text:
        write_file(Path(arguments.flamegraph), text, "--flamegraph")
    else:
        tell(say("gpudoctor: --flamegraph: no stack was sampled, so no file was written\n"))
