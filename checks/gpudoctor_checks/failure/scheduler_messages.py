"""What schedulers, clouds and runtimes of containers say of a job that they end, or could not start."""

from gpudoctor.analysis.job_log.scheduler_words import STARTED, cues, says
from gpudoctor.model import Bearing, Confidence, LogMessage

_BACK = r"\bNodeReady\b|status is now: NodeReady|Cancelling deletion of Pod|" + STARTED
"""Of a later line: the node came back, or the pod runs elsewhere."""
_AGAIN = r"\bJob executing on host\b|Job terminated of its own accord|Normal termination \(return value 0\)"
"""HTCondor: the job runs again, or ended well."""


def _queued(state: str, kind: str, text: str) -> LogMessage:
    """A row of squeue whose state says how the job ended."""
    return LogMessage(
        kind=kind,
        cue=f" {state.lower()} ",
        pattern=rf"^ *\d[\d_\[\]+-]* +\S+ +.{{1,40}} {state} +[\d:-]{{0,12}}\d:\d\d +\d+ ",
        text=text,
        bearing=Bearing.SYMPTOM,
        everywhere=True,
        outside=True,
        source="squeue -t all",
    )


ENDED = (
    LogMessage(
        kind="oom-kernel",
        cue="invoked oom-killer",
        pattern=r"(?P<program>\S{1,40}) invoked oom-killer: ",
        text="Memory ran out, and {program} called the kernel's killer. This part of the log does not name "
        "whom it killed.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        source="Linux mm/oom_kill.c",
    ),
    LogMessage(
        kind="oom-kernel",
        cue="killed as a result of limit of",
        pattern=r"Task in \S{1,300} killed as a result of limit of (?P<cgroup>/\S{1,300})",
        text="The kernel killed a process because the memory of the control group {cgroup} ran out.",
        bearing=Bearing.SYMPTOM,
        everywhere=True,
        source="Linux mm/memcontrol.c, until 4.18",
    ),
    LogMessage(
        kind="bad-memory",
        cue="due to hardware memory corruption",
        pattern=r"(?:Killing|Sending SIGBUS to) (?P<program>\S{1,40}?):(?P<pid>\d+) due to hardware memory "
        r"corruption",
        text="The kernel ended process {pid} ({program}), because a memory module of the host is damaged.",
        everywhere=True,
        source="Linux mm/memory-failure.c",
    ),
    LogMessage(
        kind="node-failure",
        cue="kernel panic - not syncing",
        pattern=r"Kernel panic - not syncing: (?P<where>.{0,99}[^\s.])",
        text="A node of the job failed[: {where}].",
        everywhere=True,
        source="Linux kernel/panic.c",
    ),
    LogMessage(
        kind="node-failure",
        cue=(
            " notready",
            "not responding",
            "unexpectedly rebooted",
            "resumetimeout reached",
            "kill task failed",
            "prolog error",
            "_node_fail",
            "reported lower than configured",
        ),
        pattern=r"^\S{1,100} +NotReady(?:,SchedulingDisabled)? +\S+ +\d+[smhd]|"
        r"(?P<where>Not responding|Node unexpectedly rebooted|ResumeTimeout reached|Kill task failed|"
        r"Prolog error|"
        r"\w{1,20}_node_fail|gres/gpu count reported lower than configured \(\d+ < \d+\))"
        r"(?: {1,20}\w{1,40} {1,20}\d{4}-\d\d-\d\dT| \[\w{1,40}@\d{4}-)",
        text="A node of the job failed[: {where}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        source="sinfo -R, scontrol show node, kubectl get nodes",
    ),
    LogMessage(
        kind="oom-kubernetes",
        cue=(
            "oom-killed",
            "systemoom",
            "had condition: [memorypressure]",
            "container killed due to memory usage",
            "exceeded resource mem",
            "exceeded resource vmem",
            "ran out-of-memory",
            "for exceeding memory limits",
            "physical memory limit",
            "physical' memory limit",
            "virtual' memory limit",
            "memory limit of ",
            "cgroup memory limit",
            "term_swap",
            "or h_vmem limit",
            "oomkilled",
            "virtual memory limit",
        ),
        pattern=r"container init was OOM-killed|\(possibly OOM-killed\)|" + says("SystemOOM") + r"|"
        r"node had condition: \[MemoryPressure\]|Container killed due to memory usage|"
        r"ran out-of-memory and exited|"
        r"Container killed by YARN for exceeding memory limits|beyond '?(?:physical|virtual)'? memory limits?|"
        r"Job has gone over (?:cgroup )?memory limit of (?P<limit>\d+ megabytes)|TERM_SWAP\b|"
        r"exceeded resource v?mem\b|\"?OOMKilled\"?: ?true\b|\b\d{1,3}/\d{1,3} {1,20}Init:OOMKilled\b|"
        r"exceeded virtual memory limit",
        text="The job was ended because it exceeded its memory limit[ of {limit}].",
        everywhere=True,
        outside=True,
        source="runc libcontainer/process_linux.go; kubelet; YARN; HTCondor; LSF; AWS Batch; Vertex AI; docker",
    ),
    LogMessage(
        kind="time-limit",
        cue=(
            "deadlineexceeded",
            "activedeadlineseconds",
            "maxruntimeexceeded",
            "exceeded maxruntimeinseconds",
            "jobtimelimitreached",
            "attempt duration exceeded timeout",
            "term_cpulimit",
            "term_deadline",
            "term_window",
            "exceeded allowed ",
            "enforced h_rt",
            "exceeded resource walltime",
            "cput ",
        ),
        pattern=r"\b\d{1,3}/\d{1,3} {1,20}DeadlineExceeded\b|passed the activeDeadlineSeconds|"
        r"\bMaxRuntimeExceeded\b|"
        r"exceeded MaxRuntimeInSeconds|\bJobTimeLimitReached\b|Job attempt duration exceeded timeout|"
        r"TERM_(?:CPULIMIT|DEADLINE|WINDOW)\b|The job exceeded allowed (?:job|"
        r"execute) duration of (?P<limit>[\d:+]+)|"
        r"qmaster enforced h_rt|exceeded resource walltime|PBS: job killed: cput \d+ exceeded limit",
        text="The scheduler ended the job at its time limit[ of {limit}].",
        everywhere=True,
        outside=True,
        source="Kubernetes, KubeRay, SageMaker, Azure ML, AWS Batch, LSF, HTCondor, Grid Engine, PBS",
    ),
    LogMessage(
        kind="preemption",
        cue=(
            "term_preempt",
            "evictedduetopreempted",
            "preempted to accommodate",
            "jobnodepreempted",
            "spot interruption",
            "because of preempt",
            "job was evicted",
            *cues("PreemptionByScheduler", "PreemptionByKubeScheduler", "Preempting"),
        ),
        pattern=r"TERM_PREEMPT\b|EvictedDueToPreempted|Preempted to accommodate a workload|"
        r"\bJobNodePreempted\b|"
        r"[Ss]pot interruption notice received|Pod is evicted, because of preempt|"
        r"(?:^|\s)(?:004 \(.{1,60}\) .{1,30} )?Job was evicted\.|"
        + says("PreemptionByScheduler", "PreemptionByKubeScheduler", "Preempting"),
        text="The scheduler preempted the job.",
        everywhere=True,
        outside=True,
        undone=_AGAIN,
        source="LSF, Kueue, Volcano, Azure ML, EC2, HTCondor, Kubernetes",
    ),
    LogMessage(
        kind="evicted",
        cue=("evicteddueto", "pod is evicted successfully", *cues("TerminationByKubelet", "EvictionByEvictionAPI")),
        pattern=r"EvictedDueTo(?:PodsReadyTimeout|AdmissionCheck|ClusterQueueStopped|LocalQueueStopped)|"
        r"pod is evicted successfully|" + says("TerminationByKubelet", "EvictionByEvictionAPI"),
        text="Kubernetes evicted the pod.",
        everywhere=True,
        outside=True,
        source="Kueue, Kubernetes pkg/kubelet/eviction",
    ),
    LogMessage(
        kind="node-failure",
        cue=(
            *cues("NodeNotReady", "TaintManagerEviction", "DeletionByTaintManager", "DeletionByPodGC", "NodeShutdown"),
            "host ec2 (instance ",
            "compute.instances.hosterror",
            "requested job terminate",
            "job disconnected too long",
            "job reconnection failed",
            "unexpectedly terminated by compute engine",
        ),
        pattern=says(
            "NodeNotReady", "TaintManagerEviction", "DeletionByTaintManager", "DeletionByPodGC", "NodeShutdown"
        )
        + r"|status is now: NodeNotReady|Host EC2 \(instance \S{1,40}\) terminated|"
        r"compute\.instances\.hostError|"
        r"PBS: job killed: node \d+ \((?P<where>\S{1,100})\) requested job terminate|Job disconnected too long|"
        r"Job reconnection failed",
        text="A node of the job failed[: {where}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        undone=_BACK + "|" + _AGAIN,
        source="Kubernetes pkg/controller/nodelifecycle; AWS Batch; Compute Engine; PBS; HTCondor",
    ),
    LogMessage(
        kind="probe",
        cue="startup probe, will be restarted",
        pattern=r"[Cc]ontainer \"?(?P<container>[\w.-]+)\"? failed startup probe, will be restarted",
        text="Kubernetes restarted the container {container} because its startup probe failed.",
        everywhere=True,
        outside=True,
        source="Kubernetes pkg/kubelet/kuberuntime",
    ),
    LogMessage(
        kind="cancelled",
        cue=("has been revoked", "force terminated ", "via condor_rm", "term_", "pbs: job killed: "),
        pattern=r"Job allocation \d+ has been revoked|srun: Force Terminated (?:job|StepId)|\bvia condor_rm\b"
        r"(?: \(by user (?P<who>[^)\s]{1,60})\))?|\bTERM_(?:UNKNOWN|ZOMBIE|LOAD|OTHER|EXTERNAL_SIGNAL|"
        r"FORCE_\w{1,10}|"
        r"REQUEUE_\w{1,10}|BUCKET_KILL|CHKPNT|REMOVE_HUNG_JOB|ORPHAN_SYSTEM|MC_RECALL|KUBE|RMS|"
        r"PROCESSLIMIT|THREADLIMIT)\b|PBS: job killed: (?!v?mem |walltime |cput )(?P<why>\S.{0,199}[^\s.])",
        text="The job was cancelled[ by {who}][ ({why})]: by its user, an administrator or a limit.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        source="Slurm src/api/allocate_msg.c; HTCondor; LSF",
    ),
    LogMessage(
        kind="sigkill",
        cue=(
            "exited with code 137",
            "status: 137",
            "exit code is 137",
            "exit_status ",
            "exit status ",
            "through signal kill",
            "status of 137",
            "abnormal termination (signal 9)",
            "status code 137",
            "code: 137",
        ),
        pattern=r"exited with (?:status )?code 137\b|[Ee]xit [Ss]tatus: 137\b|Exit code is 137\b|"
        r"status of 137\b|"
        r"status code 137\b|exit_status +137\b|[Ee]xit [Ss]tatus += ?137\b|through signal KILL\b|"
        r"Abnormal termination \(signal 9\)",
        text="A process was killed by SIGKILL. This log does not name the sender. Usually it is the kernel, "
        "because the host's memory ran out.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        outside=True,
        general=True,
        source="docker compose, YARN, Grid Engine, HTCondor, Azure ML",
    ),
    _queued("NF", "node-failure", "A node of the job failed."),
    _queued("BF", "node-failure", "A node of the job failed."),
    _queued("TO", "time-limit", "The scheduler ended the job at its time limit."),
    _queued("OOM", "oom-kubernetes", "The job was ended because it exceeded its memory limit."),
    _queued("PR", "preemption", "The scheduler preempted the job."),
)
