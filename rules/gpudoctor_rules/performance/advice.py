"""What is told of slow steps, without computation."""

from gpudoctor.model import Applicability, Effort, Resource, advise, where
from gpudoctor_checks.performance.step_time_drift import StepTimeDriftDetail
from gpudoctor_checks.performance.unexplained_time import UnexplainedTimeDetail
from gpudoctor_rules.performance.unexplained_time import DEAR

_BOUND = "limit what grows with the steps"
_BOUNDED = ("logging", "checkpoint", "data_wait")


def _cheap_environment(time: UnexplainedTimeDetail) -> bool:
    """Whether experience is gathered, and the policy's calls take most of it."""
    return not time.engine_loop and time.nature == "experience" and time.stepping < DEAR


ADVICE = (
    advise(
        "PERF004-dynamic",
        "use torch.compile(model, dynamic=True), or torch._dynamo.mark_dynamic for the changing dimension",
        "torch._dynamo.mark_dynamic(input_ids, 1)   # the length changes, one graph serves all",
        "or pad to few lengths (pad_to_multiple_of=64) and drop_last=True for the last batch",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "PERF004-look",
        "log the guards that fail",
        "TORCH_LOGS=recompiles,graph_breaks python train.py ...",
        effort=Effort.COMMAND,
    ),
    advise(
        "PERF011-compile",
        'torch.compile(model, mode="reduce-overhead")',
        'model = torch.compile(model, mode="reduce-overhead")   # CUDA graphs; fixed shapes',
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        sets=(("compile", "reduce-overhead"),),
    ),
    advise(
        "PERF011-batch",
        "use a larger micro batch and less accumulation",
        "the same effective batch in fewer passes: batch_size * 2, gradient_accumulation_steps / 2",
        applicability=Applicability.UNSAFE,
        effort=Effort.SETTING,
        uses=frozenset({Resource.DEVICE_MEMORY}),
    ),
    advise(
        "PERF011-fused",
        "set fused=True for the optimizer",
        "torch.optim.AdamW(..., fused=True)   # one kernel instead of hundreds",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "PERF012-more",
        "use bf16, torch.compile, fused attention and a larger micro batch",
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
        "find what the data set keeps: a cache without a limit, a list that is searched",
        when=where(StepTimeDriftDetail, lambda drift: not drift.episodes and drift.part == "data_wait"),
    ),
    advise(
        "PERF013-bound",
        _BOUND,
        "find a list, dict or tensor that grows with each step and is iterated over or concatenated",
        "keep a bounded window: collections.deque(maxlen=1000); sums instead of lists",
        "detach what is kept of a step: losses.append(loss.detach())",
        when=where(StepTimeDriftDetail, lambda drift: not drift.episodes and drift.part not in _BOUNDED),
    ),
    advise(
        "PERF014-engine",
        "use larger batches or fewer callbacks: the framework's cost is the same for each step",
        "a larger batch a device, with fewer steps of gradient accumulation",
        "py-spy record -- python ... shows which of its callbacks and checks take the time",
        when=where(UnexplainedTimeDetail, lambda time: time.engine_loop),
        effort=Effort.SETTING,
    ),
    advise(
        "PERF014-together",
        "run several environments at once, with one policy call for all",
        "gymnasium.vector.SyncVectorEnv([make_env] * 16), or an environment that steps whole arrays",
        "one forward pass and one sample() for all of them; torch.inference_mode() where none of it is differentiated",
        when=where(UnexplainedTimeDetail, _cheap_environment),
        effort=Effort.REWRITE,
        references=("https://gymnasium.farama.org/api/vector/sync_vector_env/",),
    ),
    advise(
        "PERF014-rank",
        "share the work out over the ranks, or do it after the training",
        "what one rank alone does in a step, all others wait for: see straggler (DIST001)",
        "do it every N steps, in a thread, or in a process that reads what the training writes",
        when=where(UnexplainedTimeDetail, lambda time: not time.engine_loop and time.nature == "one rank"),
    ),
)
