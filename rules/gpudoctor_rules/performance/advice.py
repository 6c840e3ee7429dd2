"""What is told of slow steps, without computation."""

from gpudoctor.model import Applicability, Effort, Resource, advise, where
from gpudoctor_checks.performance.step_time_drift import StepTimeDriftDetail

_BOUND = "bound what grows with the steps"
_BOUNDED = ("logging", "checkpoint", "data_wait")

ADVICE = (
    advise(
        "PERF004-dynamic",
        "torch.compile(model, dynamic=True), or torch._dynamo.mark_dynamic for the dimension that changes",
        "torch._dynamo.mark_dynamic(input_ids, 1)   # the length changes, one graph serves all",
        "or pad to few lengths (pad_to_multiple_of=64) and drop_last=True for the last batch",
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "PERF004-look",
        "see the guards that fail",
        "TORCH_LOGS=recompiles,graph_breaks python train.py ...",
        effort=Effort.COMMAND,
    ),
    advise(
        "PERF011-compile",
        'torch.compile(model, mode="reduce-overhead")',
        'model = torch.compile(model, mode="reduce-overhead")   # CUDA graphs; fixed shapes',
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        sets=(("compile", "reduce-overhead"),),
    ),
    advise(
        "PERF011-batch",
        "a greater micro batch, and less accumulation",
        "the same effective batch in fewer passes: batch_size * 2, gradient_accumulation_steps / 2",
        applicability=Applicability.UNSAFE,
        effort=Effort.SETTING,
        uses=frozenset({Resource.DEVICE_MEMORY}),
    ),
    advise(
        "PERF011-fused",
        "fused=True for the optimizer",
        "torch.optim.AdamW(..., fused=True)   # one kernel instead of hundreds",
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "PERF012-more",
        "bf16, torch.compile, fused attention, a greater micro batch",
        "torch.autocast('cuda', dtype=torch.bfloat16); torch.compile(model)",
        "torch.nn.functional.scaled_dot_product_attention for attention written by hand",
        "a greater micro batch until the memory is full (gpudoctor estimate ... --fit)",
    ),
    advise(
        "PERF013-episodes",
        "count frames, not episodes",
        "an update every 2,048 frames (for _ in range(2048): env.step(...)), not every episode",
        "a limit on an episode's frames where it has none (gymnasium.wrappers.TimeLimit)",
        when=where(StepTimeDriftDetail, lambda drift: drift.episodes),
    ),
    advise(
        "PERF013-bound",
        _BOUND,
        "open the log in append mode and write the new lines only; no plot of the whole history a step",
        when=where(StepTimeDriftDetail, lambda drift: not drift.episodes and drift.part == "logging"),
    ),
    advise(
        "PERF013-bound",
        _BOUND,
        "keep what is saved bounded: no list that grows with the steps in the checkpoint",
        when=where(StepTimeDriftDetail, lambda drift: not drift.episodes and drift.part == "checkpoint"),
    ),
    advise(
        "PERF013-bound",
        _BOUND,
        "look for what the data set keeps: a cache without a limit, a list that is searched",
        when=where(StepTimeDriftDetail, lambda drift: not drift.episodes and drift.part == "data_wait"),
    ),
    advise(
        "PERF013-bound",
        _BOUND,
        "look for a list, dict or tensor that grows by each step and is walked through or concatenated",
        "keep a bounded window: collections.deque(maxlen=1000); sums instead of lists",
        "detach what is kept of a step: losses.append(loss.detach())",
        when=where(StepTimeDriftDetail, lambda drift: not drift.episodes and drift.part not in _BOUNDED),
    ),
)
