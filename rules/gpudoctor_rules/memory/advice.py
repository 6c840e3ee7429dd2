"""What is told of memory, without computation."""

from gpudoctor.model import Applicability, Effort, Finding, LeakDetail, LeakKind, advise, in_log, where
from gpudoctor_checks.memory.out_of_memory import OutOfMemoryDetail

_SEGMENTS = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
_SETS_SEGMENTS = (("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),)


def _of_a_training(finding: Finding) -> bool:
    """Whether it is of a training in torch: a recorded one, or the allocator's own message in a log."""
    return not in_log()(finding) or in_log("size")(finding)


ADVICE = (
    advise(
        "MEM005-checkpointing",
        "use gradient checkpointing, or half the micro batch with twice the accumulation",
        "model.gradient_checkpointing_enable()   # 20 to 30 % more time",
        "gpudoctor estimate ... --fit   # which changes fit, and what each gives back",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "MEM005-segments",
        _SEGMENTS,
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   # less lost to fragments",
        applicability=Applicability.SAFE,
        effort=Effort.SETTING,
        sets=_SETS_SEGMENTS,
    ),
    advise(
        "MEM006-segments",
        _SEGMENTS,
        f"export {_SEGMENTS}",
        applicability=Applicability.SAFE,
        effort=Effort.SETTING,
        sets=_SETS_SEGMENTS,
        references=(
            "https://pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",
        ),
    ),
    advise(
        "MEM006-shapes",
        "use few different lengths: pad to a multiple of 64, longest batch first",
        "pad_to_multiple_of=64 in the collator; one batch of the greatest length before the first step",
        applicability=Applicability.UNSAFE,
    ),
    advise(
        "MEM009-segments",
        _SEGMENTS,
        f"export {_SEGMENTS}",
        when=where(OutOfMemoryDetail, lambda death: death.cause == "fragments"),
        applicability=Applicability.SAFE,
        effort=Effort.SETTING,
        sets=_SETS_SEGMENTS,
    ),
    advise(
        "MEM009-leak",
        "stop the leak: nothing of a step may keep its graph",
        "losses.append(loss.detach()), total += loss.item(); del outputs that live on",
        when=where(OutOfMemoryDetail, lambda death: death.cause == "leak"),
        effort=Effort.ONE_LINE,
    ),
    advise(
        "MEM009-evaluation",
        "put torch.inference_mode() around the evaluation, and use a smaller batch there",
        "with torch.inference_mode():   # no graph is kept",
        "outputs to the CPU as they come",
        when=where(OutOfMemoryDetail, lambda death: death.cause == "evaluation"),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "MEM009-batch",
        "use half the micro batch and twice the accumulation",
        "the same effective batch: batch_size / 2, gradient_accumulation_steps * 2",
        "gpudoctor estimate ... --fit   # which changes fit, and what each gives back",
        when=_of_a_training,
        applicability=Applicability.UNSAFE,
        effort=Effort.SETTING,
    ),
    advise(
        "MEM009-checkpointing",
        "turn on gradient checkpointing",
        "model.gradient_checkpointing_enable()   # 20 to 30 % more time, a fraction of the activations",
        when=_of_a_training,
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "MEM011-remove",  # where the pruning ends only its author knows
        'call prune.remove(module, "weight") once the pruning is done',
        "for module in pruned_modules:",
        '    torch.nn.utils.prune.remove(module, "weight")   # drops weight_orig and weight_mask',
        references=("https://pytorch.org/docs/stable/generated/torch.nn.utils.prune.remove.html",),
    ),
    advise(
        "MEM011-structured",
        "use structured pruning, or 2:4 semi-structured sparsity",
        "Remove whole channels or heads and build smaller layers (ln_structured shows which).",
        "torch.sparse.to_sparse_semi_structured(weight)   # 2:4, from compute capability 8.0 on",
        effort=Effort.REWRITE,
        references=("https://pytorch.org/tutorials/advanced/semi_structured_sparse.html",),
    ),
    advise(
        "MEM002-arrays",
        "use arrays instead of lists of Python objects in the data set",
        "self.paths = numpy.array(paths)   # one object: workers share its pages and write to none of them",
        "or multiprocessing.Manager().list, pyarrow, torch tensors; fork copies a page at its first reference",
        when=where(LeakDetail, lambda leak: leak.kind is LeakKind.WORKERS),
        references=("https://github.com/pytorch/pytorch/issues/13246",),
    ),
    advise(
        "MEM002-schedule",
        "use a profiler schedule that ends (repeat=1)",
        "schedule=torch.profiler.schedule(wait=1, warmup=1, active=5, repeat=1)",
        when=where(LeakDetail, lambda leak: leak.kind is LeakKind.PROFILER),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
    ),
)
