"""Writes a synthetic job into a folder: the program, and DeepSpeed's config where its engine trains."""

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpudoctor import __version__
from gpudoctor.estimate.ask_child import ask_child
from gpudoctor.estimate.synthetic.feasibility import Synthetic
from gpudoctor.estimate.synthetic.program_source import ProgramSpec, program
from gpudoctor.lang import say
from gpudoctor.model.records import frozen

_SECONDS = 300.0
"""Transformers' import and a model without memory: seconds, on a slow disk a minute."""
QUIET = {
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
    "PYTHONWARNINGS": "ignore",
}  # fmt: skip
"""Variables of a child and of the runs: nothing is looked up, and libraries keep their hints to themselves."""


@frozen
class WrittenProgram:
    """A program that can be run."""

    path: Path
    command: tuple[str, ...]
    """What runs it, ranks and arguments included."""


def write(
    job: Synthetic, facts: dict[str, Any], folder: Path, *, title: str, origin: str, name: str = ""
) -> WrittenProgram:
    """Write the program of a job into a folder; `facts` are what `ask` said of it, `title` the job in a line,
    `origin` the command that wants it. Raises `UsageError` for an optimizer that cannot be had."""
    script = ProgramSpec(
        title=title, origin=origin, release=__version__, job=job.job, kind=job.place.kind,
        facts=facts, deepspeed=job.engine is not None,
        own_optimizer=job.engine is None or "optimizer" not in job.engine.config,
    )  # fmt: skip
    path = folder.absolute() / f"{name or file_name(job)}.py"
    path.write_text(program(script), encoding="utf-8")
    return WrittenProgram(path=path, command=tuple(_command(job, path)))


def file_name(job: Synthetic) -> str:
    """`llama-2-7b-qlora`: letters, digits and what file names have."""
    return re.sub(r"[^\w.-]+", "-", f"{job.shape.name.rpartition('/')[2]}-{job.job.method}").strip("-.") or "job"


def _command(job: Synthetic, path: Path) -> list[str]:
    words = [sys.executable]
    if job.job.world > 1:
        words += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={job.job.gpus}"]
    words.append(str(path))
    if job.engine is not None:
        config = path.with_suffix(".deepspeed.json")
        config.write_text(json.dumps(job.engine.config, indent=2) + "\n", encoding="utf-8")
        words += ["--deepspeed", str(config)]
    return words


def ask(job: Synthetic) -> dict[str, Any]:
    """What the installed transformers says of the model (`facts.find`), from a child process.

    Raises `UsageError` for what it cannot build, `IncompleteError` where the child came to no end.
    """
    request = {"shape": asdict(job.shape), "job": asdict(job.job), "source": job.source}
    return ask_child(
        "gpudoctor.estimate.synthetic.transformers_facts", request, say("the question to transformers"), _SECONDS,
        QUIET | {"CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
