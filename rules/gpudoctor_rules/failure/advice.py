"""What is told of a run that died, without computation."""

from gpudoctor.analysis.job_log.flight_verdict import FlightKind
from gpudoctor.model import Applicability, Effort, advise, where
from gpudoctor.model.rule import Condition
from gpudoctor_checks.failure.bus_error import BusErrorDetail
from gpudoctor_checks.failure.collective_timeout import CollectiveTimeoutDetail
from gpudoctor_checks.failure.device_assert import DeviceAssertDetail
from gpudoctor_checks.failure.exception import ExceptionDetail
from gpudoctor_checks.failure.killed import KilledDetail
from gpudoctor_checks.failure.native_crash import NativeCrashDetail

_SAME = (
    "no collective in a branch that not all ranks take (if rank == 0: dist.all_reduce(...))",
    "as many batches for every rank: drop_last=True, or model.join() for uneven inputs",
    "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 shows the operation by rank",
)


def _recorded(kind: FlightKind) -> Condition:
    """The condition that the dumps of the flight recorder show this."""
    return where(CollectiveTimeoutDetail, lambda death: death.recorded is kind)


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
        "Slurm: sacct -j JOBID -o state,exitcode,elapsed,timelimit; ask for a signal before it: --signal=B:USR1@120",
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
        "FAIL004-even",
        "Give every rank the same number of steps",
        "drop_last=True and a DistributedSampler; for shards of different length: with "
        "torch.distributed.algorithms.join.Join([model, optimizer]):",
        "early stopping: decide on all ranks by one value (dist.all_reduce or dist.broadcast of the flag)",
        "compare the number of batches: dist.all_gather_object(counts, len(loader))",
        when=where(CollectiveTimeoutDetail, lambda death: death.left),
    ),
    advise(
        "FAIL004-same",
        "let rank {rank} call the same operations as the others",
        *_SAME,
        when=where(
            CollectiveTimeoutDetail, lambda death: death.recorded is None and not death.left and death.rank >= 0
        ),
    ),
    advise(
        "FAIL004-same",
        "let all ranks call the same operations",
        *_SAME,
        when=where(CollectiveTimeoutDetail, lambda death: death.recorded is None and not death.left and death.rank < 0),
    ),
    advise(
        "FAIL004-longer",
        "raise the timeout if one rank works longer on purpose",
        "dist.init_process_group(..., timeout=datetime.timedelta(hours=1))",
        when=where(
            CollectiveTimeoutDetail, lambda death: death.recorded is None and not death.mismatch and not death.left
        ),  # else nobody came late
        effort=Effort.ONE_LINE,
    ),
    advise(
        "FAIL004-absent",
        "Find out why {who} did not come",
        "read the end of the log of {who}; py-spy dump --pid PID while it hangs shows its line",
        *_SAME[:2],
        "work of one rank before a collective (preprocessing, a save) needs a longer timeout",
        when=_recorded(FlightKind.MISSING),
    ),
    advise(
        "FAIL004-alone",
        "Find out why only {who} entered it",
        "no collective in a branch that only some ranks take (if rank == 0: dist.barrier())",
        "or the other ranks were late: read the ends of their logs",
        when=_recorded(FlightKind.ALONE),
    ),
    advise(
        "FAIL004-same",
        "Let all ranks call the same operations in the same order",
        *_SAME[:2],
        "pad or gather the sizes first where ranks have different ones",
        when=_recorded(FlightKind.MISMATCH),
    ),
    advise(
        "FAIL004-order",
        "Use the process groups in the same order on all ranks",
        "no two groups in different order: first tensor, then pipeline, then data parallel, everywhere",
        "collectives of several groups on one device: one stream, or wait() before the next group",
        when=_recorded(FlightKind.CROSSED),
    ),
    advise(
        "FAIL004-partner",
        "Pair each send with a recv",
        "the same number of micro-batches in all pipeline stages",
        "torch.distributed.batch_isend_irecv([...])   # for sends and receives at the same time",
        when=_recorded(FlightKind.PEER),
    ),
    advise(
        "FAIL004-unseen",
        "Read the log of {who}, and the kernel's log of its node",
        "dmesg -T | grep -iE 'xid|killed process'   # on the node of {who}",
        "TORCH_FR_DUMP_TEMP_FILE=/shared/fr_rank_   # a folder that all nodes can write to; before "
        "torch 2.9 TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        when=_recorded(FlightKind.UNSEEN),
    ),
    advise(
        "FAIL004-link",
        "Test the GPUs and the links between them",
        "dmesg -T | grep -i xid; nvidia-smi nvlink -e; ibstat   # on the nodes of {who}",
        "all_reduce_perf -b 8 -e 1G -f 2 -g 8   # of nccl-tests, on the same nodes",
        "NCCL_DEBUG=INFO names the transport of the next run",
        when=_recorded(FlightKind.STALLED),
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
        "before torch 2.9 they are TORCH_NCCL_TRACE_BUFFER_SIZE and TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        effort=Effort.SETTING,
    ),
    advise(
        "FAIL019-search",
        "search for the words of this line in the program or library that printed it",
        "grep -rn 'a part of the line without numbers and names' .",
        "then read what the program does before it prints them",
        effort=Effort.COMMAND,
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
        when=lambda crash: not (isinstance(crash.detail, NativeCrashDetail) and crash.detail.profiled),
        effort=Effort.COMMAND,
    ),
    advise(
        "FAIL006-profiler",
        "stop the profiler before the program ends",
        "with torch.profiler.profile(...) as prof:   # or prof.stop() after the last step",
        when=where(NativeCrashDetail, lambda crash: crash.profiled),
    ),
)
