"""What is told of a run that died, without computation."""

from gpudoctor.model import Applicability, Effort, advise, where
from gpudoctor_checks.failure.bus_error import BusErrorDetail
from gpudoctor_checks.failure.collective_timeout import CollectiveTimeoutDetail
from gpudoctor_checks.failure.device_assert import DeviceAssertDetail
from gpudoctor_checks.failure.exception import ExceptionDetail
from gpudoctor_checks.failure.killed import KilledDetail

_SAME = (
    "no collective in a branch that not all ranks take (if rank == 0: dist.all_reduce(...))",
    "as many batches for every rank: drop_last=True, or model.join() for uneven inputs",
    "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 shows the operation by rank",
)

ADVICE = (
    advise(
        "FAIL002-memory",
        "use less host memory, or request more",
        "fewer loader workers, or prefetch_factor=1: each worker keeps its own batches",
        "data sets memory-mapped (numpy.load(..., mmap_mode='r')) instead of lists of Python objects",
        "Slurm: --mem; Kubernetes: resources.limits.memory; Docker: --memory",
        when=where(KilledDetail, lambda death: death.memory),
        effort=Effort.SETTING,
    ),
    advise(
        "FAIL002-limit",
        "find who sent it: a time limit, a preemption, a script",
        "Slurm: sacct -j JOBID -o state,exitcode,elapsed,timelimit; ask for a signal before it: "
        "--signal=B:USR1@120",
        "save a checkpoint on that signal, and resume from it",
        when=where(KilledDetail, lambda death: not death.memory),
    ),
    advise(
        "FAIL003-outside",
        "{cure}",
        "{cure}",
        when=where(DeviceAssertDetail, lambda death: death.cure),
        effort=Effort.ONE_LINE,
    ),
    advise(
        "FAIL003-labels",
        "test labels and indices before they reach the device",
        "assert 0 <= labels.min() and labels.max() < num_classes   # on the CPU, before .to(device)",
        "assert input_ids.max() < model.get_input_embeddings().num_embeddings   # added tokens, not resized",
        when=where(DeviceAssertDetail, lambda death: death.asserted),
        effort=Effort.ONE_LINE,
    ),
    advise(
        "FAIL003-blocking",
        "run the failing step with CUDA_LAUNCH_BLOCKING=1",
        "CUDA_LAUNCH_BLOCKING=1 python train.py ...   # the stack is then that of the guilty call; slow",
        "compute-sanitizer python train.py ...        # for illegal accesses in extensions of one's own",
        effort=Effort.COMMAND,
    ),
    advise(
        "FAIL004-same",
        "let rank {rank} call the same operations as the others",
        *_SAME,
        when=where(CollectiveTimeoutDetail, lambda death: death.rank >= 0),
    ),
    advise(
        "FAIL004-same",
        "let all ranks call the same operations",
        *_SAME,
        when=where(CollectiveTimeoutDetail, lambda death: death.rank < 0),
    ),
    advise(
        "FAIL004-longer",
        "raise the timeout if one rank works longer on purpose",
        "dist.init_process_group(..., timeout=datetime.timedelta(hours=1))",
        when=where(CollectiveTimeoutDetail, lambda death: not death.mismatch),  # else nobody came late
        effort=Effort.ONE_LINE,
    ),
    advise(
        "FAIL005-shm",
        "start the container with --shm-size=8g",
        "docker run --shm-size=8g ...   (or --ipc=host)",
        "Kubernetes: an emptyDir volume with medium: Memory, mounted at /dev/shm",
        when=where(BusErrorDetail, lambda death: death.small),
        effort=Effort.SETTING,
    ),
    advise(
        "FAIL005-files",
        'torch.multiprocessing.set_sharing_strategy("file_system")',
        'torch.multiprocessing.set_sharing_strategy("file_system")   # at the top of the script',
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "FAIL018-evidence",
        "Get the evidence that decides",
        "{needed}",
        "gpudoctor autopsy job.out rank3.log dmesg.txt   # all of them together",
        effort=Effort.COMMAND,
    ),
    advise(
        "FAIL018-next-time",
        "Let the next run leave more behind",
        "torchrun --tee 3 --log-dir logs ...; PYTHONFAULTHANDLER=1; TORCH_SHOW_CPP_STACKTRACES=1",
        "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=/shared/fr_rank_",
        effort=Effort.SETTING,
    ),
    advise(
        "FAIL001-silent",
        "find who ended it: the kernel for memory, os._exit, a library",
        "dmesg -T | tail   # `Killed process` is the kernel, for memory: fewer workers, a smaller batch",
        "grep -rn 'os._exit' .   # and the last lines of its own log (torchrun --log-dir logs --tee 3)",
        when=where(ExceptionDetail, lambda death: death.silent),
        effort=Effort.COMMAND,
    ),
    advise(
        "FAIL006-rebuild",
        "rebuild the extensions against the installed torch",
        "gpudoctor check   # ENV005 names packages of the stack that do not fit together",
        effort=Effort.COMMAND,
    ),
)
