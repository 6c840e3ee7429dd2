"""What checks and rules ask of a job's forecast memory: how sure it is, and the words for it."""

import shlex

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.evidence import Evidence, Measurement, Provenance, Setting, SourceSpan
from gpudoctor.model.finding import Confidence
from gpudoctor.model.signs.memory import Choice, Holds, JobMemory
from gpudoctor.text import size

CORE = frozenset(
    {"seq", "batch", "checkpointing", "dtype", "mixed_precision", "lora_rank", "lora_targets", "optimizer", "gpus"}
)
"""Fields without which only a lower bound can be told."""
UNSHARDED = "unsharded"
"""Guessed: that no file outside of those that were read shards the job over several GPUs."""
FEW_TOKENS = 1024
"""Tokens of a micro batch below which a GPU works on reading weights: a product of T tokens does T operations
for each byte of 16-bit weights that it reads, and the card's own ratio is 156 (A100) to 295 (H100); products
are near their peak from a few times that (roofline, 10.1145/1498765.1498785)."""
_METHODS = {
    "full": "full fine-tuning", "lora": "LoRA", "qlora": "QLoRA", "int8-lora": "LoRA on an 8-bit base",
    "gptq-lora": "LoRA on a GPTQ base", "freeze": "part of the layers",
}  # fmt: skip
_WORDS = {
    "checkpointing": {"layer": "gradient checkpointing", "none": "no gradient checkpointing"},
    "loss": {"chunked": "a chunked loss (Liger, cut cross entropy)"},
    "optimizer": {"adamw-8bit": "an 8-bit AdamW"},
    "method": {"lora": "LoRA", "qlora": "QLoRA", "full": "full fine-tuning"},
    "parallel": {
        "ddp": "data parallelism", "zero1": "ZeRO stage 1", "zero2": "ZeRO stage 2", "zero3": "ZeRO stage 3",
        "fsdp": "FSDP", "fsdp2": "FSDP2",
    },
    "offload": {
        "none": "", "optimizer": "the optimizer offloaded", "params": "parameters and optimizer offloaded",
    },
}  # fmt: skip


def sure(job: JobMemory) -> bool:
    """Whether everything that the memory hangs on is written somewhere: then it is a figure and no bound."""
    return not job.guessed & CORE


def tokens(job: JobMemory) -> int:
    """Tokens of a micro batch on one GPU."""
    return int(job.values["batch"]) * int(job.values["seq"])


def checkpoints_needlessly(job: JobMemory) -> bool:
    """Whether gradient checkpointing is asked for and the job would fit without."""
    without = job.unchecked
    return without is not None and without.holds is Holds.FITS and "checkpointing" in job.places and sure(job)


def describe(job: JobMemory) -> str:
    """`llama-2-7b, full fine-tuning, 4 rows of 2,048 tokens`; what nobody wrote is left out."""
    values = job.values
    parts = [job.model, _METHODS.get(str(values["method"]), str(values["method"]))]
    gpus = int(values["gpus"]) * int(values["nodes"])
    if gpus > 1 and "gpus" not in job.guessed:
        parts.append(f"{gpus} GPUs")
    if "seq" not in job.guessed or "batch" not in job.guessed:
        rows = say("{batch} row", batch=values["batch"]) + ("" if values["batch"] == 1 else "s")
        parts.append(rows if "seq" in job.guessed else say("{rows} of {seq:,} tokens", rows=rows, seq=values["seq"]))
    return concatenated(", ", parts)


def bound(job: JobMemory) -> str:
    """The clause for what was taken at its least: `even with rows of 256 tokens`; "" where nothing was."""
    taken = []
    if "gpus" in job.guessed:
        taken.append(say("{gpus} GPUs", gpus=job.values["gpus"]))
    if "seq" in job.guessed:
        taken.append(say("rows of {seq:,} tokens", seq=job.values["seq"]))
    if "batch" in job.guessed:
        taken.append("a micro batch of 1")
    if "checkpointing" in job.guessed:
        taken.append("gradient checkpointing")
    if "dtype" in job.guessed:
        taken.append(say("weights in {dtype}", dtype=job.values["dtype"]))
    return (
        "even with " + concatenated(" and ", [", ".join(taken[:-1]), taken[-1]] if len(taken) > 1 else taken)
        if taken
        else ""
    )


def change_words(changes: dict[str, Choice]) -> str:
    """`LoRA, gradient checkpointing and a micro batch of 1`."""
    words = []
    for name, value in changes.items():
        said = _WORDS.get(name, {}).get(str(value))
        if name == "batch":
            said = say("a micro batch of {value}", value=value)
        if said != "":
            words.append(said or say("{name} {value}", name=name.replace("_", " "), value=value))
    return concatenated(" and ", [", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def confidence(job: JobMemory) -> Confidence:
    """A formula over settings that are all written is an indirect sign; over guesses a suspicion."""
    return Confidence.PROBABLE if sure(job) else Confidence.SUSPECTED


def evidence(job: JobMemory, *names: str) -> tuple[Evidence, ...]:
    """Where these fields are written, the estimate and the card."""
    places: dict[tuple[str | None, int | None], Setting | SourceSpan] = {}
    for name in names:
        if name in job.places:
            places.setdefault((job.places[name].path, job.places[name].line), job.places[name])
    estimate = Measurement(
        "estimated_peak", job.now.peak, "B", provenance=Provenance.ANALYTIC,
        reproduce=f"gpudoctor estimate {command(job)}",
    )  # fmt: skip
    card = Measurement("device_memory", job.device_bytes, "B", provenance=Provenance.DECLARED)
    return (*places.values(), estimate, card)


def command(job: JobMemory) -> str:
    """The words of `gpudoctor estimate` that give the same figure."""
    flags = [f"--model {shlex.quote(job.model)}", f"--gpu {job.device_bytes}"]
    for name, value in job.values.items():
        if value is None or value == "" or (name in {"gpus", "nodes", "accumulate"} and value == 1):
            continue
        if name in {"mixed_precision", "parallel", "offload"} and value in {"no", "none"}:
            continue
        if name == "lora_rank" and job.values["method"] in {"full", "freeze"}:
            continue
        flags.append(say("--{name} {value}", name=name.replace("_", "-"), value=value))
    return " ".join(flags)


def card_words(job: JobMemory) -> str:
    """`NVIDIA H100 (this machine's GPU 0)`, `a GPU of 24 GiB (--gpu)`."""
    name = (
        job.device
        if not job.device[:1].isdigit()
        else say("a GPU of {device_bytes}", device_bytes=size(job.device_bytes))
    )
    return say("{name} ({device_origin})", name=name, device_origin=job.device_origin)


def room_words(job: JobMemory) -> str:
    """`the 80 GiB of NVIDIA H100 (this machine's GPU 0)`."""
    amount = "" if job.device[:1].isdigit() else say("the {device_bytes} of ", device_bytes=size(job.device_bytes))
    return amount + card_words(job)


def short_words(job: JobMemory) -> str:
    """`needs 93 GiB at the loss, and NVIDIA H100 (--gpu) has 79.5 GiB in addition to the CUDA context`."""
    left = say(
        "{card_words} has {room} in addition to the CUDA context", card_words=card_words(job), room=size(job.room)
    )
    return say("needs {peak} at {instant}, and {left}", peak=size(job.now.peak), instant=job.instant, left=left)


def sharding_is_asked(job: JobMemory) -> bool:
    """Whether a ZeRO stage is written: then how the job shards is another check's business."""
    place = job.places.get("parallel")
    return isinstance(place, Setting) and place.key.endswith("stage") and bool(job.layouts)


COST = {"ddp": 0, "zero1": 0, "zero2": 0, "zero3": 1}
"""Communication of a way to shard, in steps (ZeRO, section 7: stage 3 moves half as much again)."""
OFFLOAD_COST = {"none": 0, "optimizer": 2, "params": 4}


def layout_cost(changes: dict[str, Choice]) -> int:
    """How slow a way to shard is beside the others: only an order."""
    return COST.get(str(changes["parallel"]), 1) + OFFLOAD_COST[str(changes["offload"])]


def stage_that_fits(job: JobMemory) -> dict[str, Choice] | None:
    """The first way to shard, from the fastest, that fits with its margin."""
    ways = sorted(job.layouts, key=lambda item: layout_cost(dict(item.changes)))
    return next((dict(item.changes) for item in ways if item.holds is Holds.FITS), None)
