"""ENV008 limits-too-low."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import Workers, optional, read_workers, runs_here
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Facts, Finding, Patient, Reads, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.signs.host import Host
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import count, size


class LimitsTooLow(Check):
    """A limit of the shell or the container is too low for training: open files or locked memory.

    What it finds:
        - At most 1024 open files with DataLoader workers.
        - Limited locked memory on a node with InfiniBand.
    Why it hurts:
        "Too many open files" or "received 0 items of ancdata" in the middle of an epoch. NCCL that cannot
        register memory ("ibv_reg_mr failed", "ibv_create_cq failed"). "pthread_create failed: Resource
        temporarily unavailable" at start.
    How it knows:
        /proc/self/limits of this shell; the job inherits them unless its launcher sets others. Workers come from
        the script or config, InfiniBand from /sys/class/infiniband.
    False alarms:
        Schedulers and container runtimes often raise limits for the job: run gpudoctor inside the job. Cards
        with RDMA over Ethernet count only if the job has several nodes. With an unknown number of workers
        open files are not judged.
    Remedies:
        Raise the limit with ulimit or the container's flag; for open files, PyTorch's file_system sharing also
        helps.
    References:
        - https://github.com/pytorch/pytorch/issues/973
        - https://github.com/NVIDIA/nccl-tests/issues/206
    """

    code = "ENV008"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold("open_files", 1024, "{files}", "pytorch/pytorch#973 and #34768: 1024, the usual soft limit, runs out",
                  "At or below it, workers that pass many tensors run out of descriptors."),
        Threshold("locked_memory_share", 0.1, "1",
                  "NCCL and UCX ask for unlimited; sites that bound it on purpose leave more than a tenth",
                  "Locked memory below this share of the machine's memory is too little for RDMA."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if not runs_here(patient):
            raise Unavailable(say("the job script runs on another machine"))
        host, workers = patient.host, read_workers(patient)
        yield from self._open_files(host, workers)
        yield from self._locked_memory(host, patient)

    def _open_files(self, host: Host, workers: Workers) -> Iterator[Finding]:
        soft, hard = host.open_files.soft, host.open_files.hard
        if soft is None or soft > self.limit("open_files") or not workers.count:
            return
        yield self.finding(
            say(
                "A process may open {soft} files (the limit is {limit:g}), and a loader starts {workers}.",
                soft=soft,
                limit=self.limit("open_files"),
                workers=count(workers.count, "worker"),
            ),
            evidence=(Measurement("open_files_soft", soft, "{files}", reproduce="ulimit -Sn"), *workers.evidence),
            confidence=Confidence.PROBABLE,
            subject="open files",
            detail=Facts(kind="open files", hard=-1 if hard is None else hard),
        )

    def _locked_memory(self, host: Host, patient: Patient) -> Iterator[Finding]:
        soft, hard = host.locked_memory.soft, host.locked_memory.hard
        if soft is None or not host.infiniband or soft >= self.limit("locked_memory_share") * host.memory_total:
            return
        job = optional(lambda: patient.job)
        nodes = job.nodes if job is not None else None
        if nodes == 1 or (nodes is None and set(host.infiniband) <= set(host.roce)):
            return
        cards = ", ".join(host.infiniband[:4])
        yield self.finding(
            say(
                "Locked memory is limited to {soft}, and RDMA over {cards} has to lock its buffers.",
                soft=size(soft),
                cards=cards,
            ),
            evidence=(
                Measurement("locked_memory_soft", soft, "B", reproduce="ulimit -Sl"),
                Measurement("rdma_devices", len(host.infiniband), "{devices}", reproduce="ls /sys/class/infiniband"),
            ),
            confidence=Confidence.PROBABLE,
            subject="locked memory",
            detail=Facts(kind="locked memory", hard=-1 if hard is None else hard),
        )
