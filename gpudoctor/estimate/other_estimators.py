"""What other tools' formulas answer for the same job, and why they differ.

Formulas only, none of these packages is imported: accelerate 1.x `estimate_memory`, DeepSpeed 0.15
`estimate_zero*_model_states_mem_needs`, the table in LLaMA-Factory's README, EleutherAI's cookbook, and the
rule of thumb of guides (weights, gradients, Adam, and one activation per token, layer and width).
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpudoctor.estimate.analytic.layout import SIZE, lay_out
from gpudoctor.estimate.analytic.state import groups
from gpudoctor.estimate.result import Estimate
from gpudoctor.lang import say

GB = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """One other answer."""

    name: str
    """Whose it is."""
    bytes: int | None
    """Its answer for one GPU; None where it has none for such a job."""
    formula: str
    """How it comes about, with the numbers in it."""
    why: str
    """Why it differs from ours, or has no answer."""


def rivals(estimate: Estimate) -> tuple[Rival, ...]:
    """The others' answers."""
    return tuple(answer(estimate) for answer in _ANSWERS)


def _rule_of_thumb(estimate: Estimate) -> Rival:
    job, shape = estimate.job, estimate.shape
    count, width = shape.parameters.total, SIZE[job.dtype]
    trained = _trained(estimate)
    weights = width * count
    state = width * trained + 8 * trained
    activations = job.batch * job.seq * shape.hidden * shape.blocks * width
    return Rival(
        name=say("rule of thumb"),
        bytes=weights + state + activations,
        formula=f"{width} B x {count:,} + ({width} + 8) B x {trained:,} trained + {job.batch} x {job.seq:,} x "
        f"{shape.hidden:,} x {shape.blocks} x {width} B",
        why=say(
            "sums what is never alive at one time, assumes fp32 states of Adam. Ignores logits, temporaries "
            "of the step; counts one tensor a layer"
        )
        + (say("; it knows no quantized base") if job.quantized else ""),
    )


def _trained(estimate: Estimate) -> int:
    """Trained parameters, as we count them: one of the few terms on which all agree."""
    return sum(group.count for group in groups(lay_out(estimate.shape, estimate.job)))


def _accelerate(estimate: Estimate) -> Rival:
    count, width = estimate.shape.parameters.total, SIZE[estimate.job.dtype]
    each = 16 if width == 4 else 8
    train = estimate.job.mode == "train"
    size = each * count if train else width * count
    return Rival(
        name="accelerate",
        bytes=size,
        formula=f"{each if train else width} B x {count:,} parameters",
        why=say(
            "no activations, no batch, no sequence, no logits. Full training with Adam only; for 16 bits the "
            "largest of its parts and not their sum"
        ),
    )


def _deepspeed(estimate: Estimate) -> Rival:
    job, count = estimate.job, estimate.shape.parameters.total
    world = job.world
    if job.adapted or job.mode != "train":
        return Rival(
            name=say("DeepSpeed helper"), bytes=None, formula="", why=say("model states of full training only")
        )
    if job.parallel in {"zero3", "fsdp", "fsdp2"}:
        big = 4 * max(estimate.shape.layer_parameters, estimate.shape.parameters.embedding)
        size, text = big + 18 * count // world, f"4 B x {big // 4:,} + 18 B x {count:,} / {world}"
    else:
        size, text = 2 * count + 18 * count // world, f"2 B x {count:,} + 18 B x {count:,} / {world}"
    return Rival(
        name=say("DeepSpeed helper"),
        bytes=size,
        formula=text,
        why=say(
            "model states with fp32 master weights (18 bytes a parameter) whatever the job keeps. No "
            "activations, no logits, no gathered layers"
        ),
    )


def _llama_factory(estimate: Estimate) -> Rival:
    job, count = estimate.job, estimate.shape.parameters.total
    if job.mode != "train":
        return Rival(name=say("LLaMA-Factory table"), bytes=None, formula="", why=say("training only"))
    full = 8 if job.dtype != "fp32" else 18
    each = {"lora": 2.0, "freeze": 2.0, "qlora": 0.5, "int8-lora": 1.0, "gptq-lora": 0.5}.get(job.method, full)
    return Rival(
        name=say("LLaMA-Factory table"),
        bytes=int(each * count),
        formula=f"{each:g} GB a billion x {count / GB:.2f} billion",
        why=say("the same for every batch, sequence and vocabulary: a least, not an estimate"),
    )


def _eleuther(estimate: Estimate) -> Rival:
    job, shape = estimate.job, estimate.shape
    if job.adapted or job.mode != "train":
        return Rival(
            name=say("EleutherAI calculator"),
            bytes=None,
            formula="",
            why=say("full training of dense models only"),
        )
    count, width = shape.parameters.total, SIZE[job.dtype]
    tokens = job.batch * job.seq
    kept = tokens * shape.hidden * shape.layers
    acts = (
        kept * 2 if job.checkpointing != "none" else int(kept * (34 + 5 * shape.heads * job.seq / shape.hidden))
    )
    return Rival(
        name=say("EleutherAI calculator"),
        bytes=(width + 4 + 12) * count + acts,
        formula=f"({width} + 4 + 12) B x {count:,} + {acts:,} B activations",
        why=say(
            "fp32 gradients and 12 bytes of Adam a parameter whatever the job keeps. No logits; grouped heads "
            "and fused attention ignored"
        ),
    )


_ANSWERS: tuple[Callable[[Estimate], Rival], ...] = (
    _rule_of_thumb, _accelerate, _deepspeed, _llama_factory, _eleuther,
)  # fmt: skip
