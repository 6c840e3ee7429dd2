"""The text of a synthetic job: a plain training program that needs nothing of ours, from `program.py.jinja`.

It has only the lines that its job needs, so that what a remedy changes is a line that can be read, and so that
it can be taken along and run by hand.
"""

import textwrap
from importlib.resources import files
from pprint import pformat
from typing import Any

from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.tables import read_table
from gpudoctor.model.records import frozen

_WIDTH = 110
_KEYWORDS_WIDTH = 84
_TYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}
_OPTIMIZERS: dict[str, str] = read_table("names.json")["optimizers"]
WRITTEN = tuple(_OPTIMIZERS)
"""Optimizers that a synthetic job can have."""


@frozen
class ProgramSpec:
    """What a program is written from."""

    title: str
    origin: str
    release: str
    job: TrainingJob
    """The job; `gpus` x `nodes` ranks of it."""
    kind: str
    facts: dict[str, Any]
    """What `facts.find` says of the model."""
    deepspeed: bool = False
    """Whether DeepSpeed's engine trains, by the config that `--deepspeed` names."""
    own_optimizer: bool = True
    """Whether the program makes the optimizer; False where DeepSpeed's config names one."""


def needs_of(optimizer: str) -> str | None:
    """The package that an optimizer comes from; None for torch and transformers."""
    if _OPTIMIZERS.get(optimizer, "").startswith("bnb."):
        return "bitsandbytes"
    return "torchao" if "-ao-" in optimizer else None


def program(script: ProgramSpec) -> str:
    """The program's text."""
    import jinja2

    job, blocks, several = script.job, script.facts["blocks"], script.job.world > 1
    mixed = job.mixed_precision != "no" and not script.deepspeed
    by_hand = f"torchrun --nproc_per_node={job.gpus} THIS" if several else "python THIS"
    said = (
        f"Written by gpudoctor {script.release} for `{script.origin}`. Weights and data are random: time and "
        f"memory are those of the real job, losses mean nothing. It needs nothing of gpudoctor; by hand: "
        f"{by_hand} --steps 20"
    )
    made = jinja2.Environment(
        autoescape=False,  # the text is Python
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    made.filters["literal"] = _literal
    template = made.from_string(files(__package__).joinpath("program.py.jinja").read_text("utf-8"))
    return template.render(
        job=job, facts=script.facts, kind=script.kind, cuda=script.kind == "cuda", several=several,
        deepspeed=script.deepspeed, own_optimizer=script.own_optimizer, types=_TYPES,
        title=textwrap.fill(script.title, _WIDTH - 3),
        said=textwrap.fill(said, _WIDTH, break_on_hyphens=False),
        needs=needs_of(job.optimizer), optimizer=_OPTIMIZERS.get(job.optimizer),
        low=job.mixed_precision if job.mixed_precision != "no" else job.dtype,
        mixed=mixed, scaled=mixed and job.mixed_precision == "fp16",  # losses are scaled: gradients in fp16
        alone=job.parallel == "ddp" and job.accumulate > 1,  # all but the last micro batch stay on their rank
        spread=" + ".join(f"[*model.{name}]" for name in blocks),
        wrapped=[f"model{'.get_base_model()' if job.adapted else ''}.{name}" for name in blocks],
    )  # fmt: skip


def _literal(value: Any, key: str) -> str:
    """A keyword argument's value as Python writes it, its further lines below the first."""
    text = pformat(value, width=_KEYWORDS_WIDTH, compact=True, sort_dicts=False)
    return text.replace("\n", "\n" + " " * (len(key) + 5))
