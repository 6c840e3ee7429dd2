"""What is told of several ranks, without computation."""

from gpudoctor.model import Applicability, Effort, advise, where
from gpudoctor_checks.distributed.hang import HangDetail

_HANG = (
    "py-spy dump --pid PID   # of each rank, twice: what does not change is where it hangs",
    "a collective in a branch that not all ranks take; uneven numbers of batches; a lock held over a fork",
    "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 names the operation by rank",
)

ADVICE = (
    advise(
        "DIST002-accumulate",
        "accumulate gradients under no_sync()",
        "with model.no_sync(): loss.backward()   # for all but the last micro batch of a step",
        "twice the accumulation halves the communication; the effective batch doubles",
        applicability=Applicability.UNSAFE,
    ),
    advise(
        "DIST002-buckets",
        "bucket_cap_mb=100, gradient_as_bucket_view=True",
        "DistributedDataParallel(model, bucket_cap_mb=100, gradient_as_bucket_view=True)",
        "FSDP: backward_prefetch=BackwardPrefetch.BACKWARD_PRE, forward_prefetch=True",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "DIST002-compress",
        "send gradients in bf16",
        "model.register_comm_hook(None, torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook)",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "DIST008-rank",
        "check rank {rank}: it does not reach the place at which the others wait",
        *_HANG,
        when=where(HangDetail, lambda hang: hang.rank >= 0),
    ),
    advise("DIST008-rank", "compare where all ranks are", *_HANG, when=where(HangDetail, lambda hang: hang.rank < 0)),
    advise(
        "DIST009-map",
        "call torch.cuda.set_device(local_rank) first; load checkpoints with map_location='cpu'",
        "torch.cuda.set_device(local_rank)                       # or all ranks open a context on cuda:0",
        "torch.load(path, map_location='cpu')                    # or every rank loads onto the saver's device",
        "nvidia-smi: which processes are on the card of rank {rank}?",
        effort=Effort.ONE_LINE,
    ),
)
