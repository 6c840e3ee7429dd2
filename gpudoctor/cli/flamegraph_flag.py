"""`--flamegraph FILE` of `run`, `report` and `watch`: the training thread's stacks by phase, for speedscope."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.output import tell, write_file
from gpudoctor.errors import UsageError

if TYPE_CHECKING:
    from gpudoctor.model.flames import FlameProfile
    from gpudoctor.model.signs.recording import Recording


def add_flamegraph_flag(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """The flag."""
    parser.add_argument(
        "--flamegraph", metavar="FILE", help="write the training thread's stacks by phase, as JSON for speedscope.app"
    )


def check_flamegraph(arguments: argparse.Namespace) -> None:
    """Refuse a folder that is not there before anything is run. Raises `UsageError`."""
    name = arguments.flamegraph
    if name is not None and not (parent := Path(name).parent).is_dir():
        raise UsageError("--flamegraph {name}: the folder {parent} does not exist", name=name, parent=parent)


def flamegraph_text(profiles: "Sequence[FlameProfile]", title: str, arguments: argparse.Namespace) -> str:
    """The file's text; "" where there is no sample."""
    from gpudoctor.report.flamegraph import speedscope

    return speedscope(title, profiles, share=arguments.share) if profiles else ""


def recorded_flamegraph(recording: "Recording", title: str, arguments: argparse.Namespace) -> str:
    """The text for a recording."""
    from gpudoctor.analysis.run.flame_stacks import flame_profiles

    return flamegraph_text(flame_profiles(recording), title, arguments)


def write_flamegraph(text: str, arguments: argparse.Namespace) -> None:
    """Write the file, or say why there is none."""
    if text:
        write_file(Path(arguments.flamegraph), text, "--flamegraph")
    else:
        tell("gpudoctor: --flamegraph: no stack was sampled, so no file was written\n")
