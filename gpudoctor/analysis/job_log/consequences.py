"""Messages that follow from the failure of something else, and messages that frighten without a reason."""

from gpudoctor.analysis.job_log.scheduler_words import says
from gpudoctor.model.log_message import Bearing, LogMessage

UNHEEDED = "exiting"
"""The kind of what happens while a process ends, or in a thread or destructor: nothing ended by it."""


PEER, ABORTED = "peer", "aborted"
"""Kinds of a connection that another rank has left, and of a rank that was ended because of another."""
SERVICE = "service"
"""The kind of what services of the machine say of signals that they got or sent: it is not the job's."""
OF_A_GOOD_END = frozenset({UNHEEDED, "trackers", PEER, "closing"})
"""Kinds that a job prints while it ends well, too."""
OF_A_DEATH = frozenset({ABORTED, "launcher", "wrapped", "scheduler", "actors", "mpi"})
"""Kinds that show that some process of the job has failed."""


def _row(
    kind: str,
    cue: str | tuple[str, ...],
    pattern: str,
    *,
    source: str = "",
    undone: str = "",
    outside: bool = False,
    closing: bool = False,
) -> LogMessage:
    return LogMessage(
        kind=kind,
        cue=cue,
        pattern=pattern,
        text="",
        bearing=Bearing.CONSEQUENCE,
        everywhere=True,
        undone=undone,
        outside=outside,
        closing=closing,
        source=source,
    )


def _calm(kind: str, cue: str | tuple[str, ...], pattern: str, *, source: str = "") -> LogMessage:
    return LogMessage(
        kind=kind, cue=cue, pattern=pattern, text="", bearing=Bearing.HARMLESS, everywhere=True, source=source
    )


CONSEQUENCES: tuple[LogMessage, ...] = (
    _row(PEER, "got 0 bytes", r"[Ff]ailed to recv, got 0 bytes", source="TCPStore"),
    _row(ABORTED, "process group", r"(?i)process group (?:was |is )?aborted"),
    _row(
        ABORTED,
        ("pickle data was truncated", "ran out of input"),
        r"(?:pickle data was truncated|EOFError: Ran out of input)"
        r"[\s\S]*\nin (?:\S+ )*multiprocessing/spawn\.py$",
        source="multiprocessing/spawn.py: the parent ended while the child began",
    ),
    _row(
        "wrapped",
        "bashexitfailure",
        r"BashExitFailure: bash_app \S+ failed with unix exit code [1-9]",
        source="parsl/app/errors.py: its command failed, and says why elsewhere",
    ),
    _row(
        "launcher",
        ("see root cause above", "engine process failed to start", "shardcannotstart"),
        r"Engine core initialization failed\. See root cause above|Engine process failed to start|"
        "^Error: ShardCannotStart",
        source="vllm/v1/engine/utils.py, vllm/engine/multiprocessing; text-generation-inference launcher",
    ),
    _row(
        "launcher",
        "due to an exception in a ",
        r"failed due to an exception in a (?:background|child|worker) process",
        source="vllm/v1/executor/multiproc_executor.py: the process says why itself",
    ),
    _row(
        "launcher",
        ("job failed, log is in ", "job failed with status ", " failed, log is in "),
        r"^(?:\S{0,200}/)?(?:run|queue|slurm|ssh|pbs)\.pl: (?:job failed(?:, log is in | with status \d)|"
        r"\d{1,6} / \d{1,6} failed, log is in )",
        source="Kaldi egs/wsj/s5/utils/parallel: the log of the program says why",
    ),
    _row("launcher", "childfailederror", r"[Cc]hildFailedError", source="torch/distributed/elastic"),
    _row(
        "launcher",
        "exitcode",
        r"failed \(exitcode: ?(?P<exitcode>(?!13[4579]\b)[1-9]\d*)\) local_rank: (?P<local_rank>\d+)",
        source="torch/distributed/elastic/multiprocessing/api.py",
    ),
    _row("closing", "closing signal", r"Sending process \d+ closing signal", source="torch/distributed/elastic"),
    _row("closing", "closing process", r"Closing process \d+ via signal|Closing processes", source="torch elastic"),
    _row(
        "frames-left-out",
        "hydra_full_error=1",
        r"^Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace",
        source="hydra/_internal/utils.py: it leaves its own frames out, and sometimes all of them",
    ),
    _row("wrapped", "dataloader worker", r"^\w*Error: Caught \w+ in DataLoader worker process \d+\.\s*$"),
    _row(
        "wrapped",
        "caught",
        r"^\w*Error: Caught \w+ in (?:replica|pin memory thread|DataLoader worker process)"
        r"[^\n]*(?:\n(?!.*Error).*)*$",
    ),
    _row(
        "wrapped",
        ("terminated with", "processraisedexception", "processexitedexception"),
        r"ProcessRaisedException|ProcessExitedException(?!.*terminated with signal)|"
        r"-- Process \d+ terminated with (?:the following error|exit code)",
    ),
    _row(
        "launcher",
        "died unexpectedly, shutting down",
        r"(?:Engine core|Worker) proc \S{1,80} died unexpectedly, shutting down",
        source="vllm/v1/engine/core_client.py, v1/executor/multiproc_executor.py",
    ),
    _row(
        "wrapped",
        "w&b process to finish",
        r"Waiting for W&B process to finish\.{3} \(failed -?[1-9]\d{0,3}\)",
        source="wandb/sdk/wandb_run.py: the exit code of the program",
    ),
    _row(
        "wrapped",
        "terminated with exit code",
        r"^Exception: process \d{1,6} terminated with exit code [1-9]",
        source="torch/multiprocessing/spawn.py before 1.6",
    ),
    _row(
        "wrapped", "bdbquit", r"^(?:bdb\.)?BdbQuit\b", source="bdb: the user left the debugger, which something opened"
    ),
    _row("launcher", "first observed failure", r"Root Cause \(first observed failure\)", source="torch elastic"),
    _row(
        "wrapped",
        "command failed. the command returned",
        r"AirflowException: \w+ command failed\. The command returned a non-zero exit code",
        source="Airflow: the operator's own",
    ),
    _row(
        "wrapped",
        "calledprocesserror",
        r"CalledProcessError: Command (?!.*(?:<Signals\.|exit status 13[245679]\b))"
        r".*(?:python|accelerate|torchrun|deepspeed|launch|bash)",
        source="accelerate, deepspeed: the launcher's own",
    ),
    _row(
        "wrapped",
        "returned non-zero",
        r"Command '\[.*(?:python|accelerate|torchrun).*returned non-zero exit status (?!13[245679]\b)",
    ),
    _row("wrapped", "exits with return code", r"exits with return code = [1-9]", source="deepspeed/launcher"),
    _row("ends-others", "killing subprocess", r"Killing subprocess \d+", source="deepspeed/launcher/launch.py"),
    _row(
        ABORTED,
        ("communicator was aborted", "communicator is aborted"),
        r"NCCL communicator (?:was|is) aborted",
        source="ProcessGroupNCCL",
    ),
    _row(ABORTED, "nccl operations have failed", r"Some NCCL operations have failed", source="ProcessGroupNCCL"),
    _row(
        ABORTED,
        ("data inconsistency", "potential inconsistency", "the entire process down"),
        r"To avoid (?:data|potential) inconsistency|"
        r"tak(?:e|ing) the entire process down",
        source="ProcessGroupNCCL",
    ),
    _row(
        ABORTED,
        "watchdog thread terminated",
        r"watchdog thread terminated with exception(?!.*illegal|.*assert)"
        r"(?=.*(?:[Tt]imeout|aborted|remote))",
        source="ProcessGroupNCCL",
    ),
    _row(
        ABORTED,
        "remote process exited",
        r"remote process exited or there was a network error",
        source="NCCL: ncclRemoteError",
    ),
    _row(ABORTED, "ncclremoteerror", r"ncclRemoteError: A call failed possibly due to a network error or a remote"),
    _row(
        ABORTED,
        "another rank",
        r"(?:timeout|signal|error|exception|failure).{0,60}(?:from|by|on) another rank|"
        r"another rank (?:has )?(?:timed? ?out|failed|died)",
        source="ProcessGroupNCCL",
    ),
    _row(
        PEER,
        ("connection closed by", "closed by remote host"),
        r"Connection closed by (?:peer|remote peer)|closed by remote host",
    ),
    _row(PEER, "connection reset by peer", r"Connection reset by peer"),
    _row(PEER, ("broken pipe", "brokenpipe"), r"Broken ?[Pp]ipe"),
    _row(PEER, "handle is closed", r"OSError: handle is closed", source="multiprocessing/connection.py"),
    _row(PEER, "application timeout caused pair closure", r"Application timeout caused pair closure(?!.*timed out)"),
    _row(
        PEER,
        ("recvvalue failed", "sendbytes failed", "recvvector failed"),
        r"recvValue failed|sendBytes failed|recvVector failed",
        source="TCPStore",
    ),
    _row(PEER, "tcpstore server has shut down", r"TCPStore server has shut down too early", source="TCPStore"),
    _row(PEER, "failed to check the", r"Failed to check the \"should dump\" flag", source="ProcessGroupNCCL"),
    _row(
        "launcher",
        "rendezvousconnectionerror",
        r"RendezvousConnectionError: The connection to the C10d store has failed",
        source="torch/distributed/elastic/rendezvous: the node that holds the store is gone",
    ),
    _row(
        PEER, "rendezvous", r"failed to shutdown on (?:the )?rendezvous", source="torch/distributed/elastic/rendezvous"
    ),
    _row(PEER, "the node '", r"The node '.*' has failed to (?:shutdown|send a keep-alive)", source="torch elastic"),
    _row(UNHEEDED, "exception ignored in", r"Exception ignored in"),
    _row(UNHEEDED, "leaked", r"There appear to be \d+ leaked|leaked (?:semaphore|shared_memory)"),
    _row(UNHEEDED, "destroy_process_group", r"destroy_process_group\(\) was not called", source="ProcessGroupNCCL"),
    _row(UNHEEDED, "terminate called", r"terminate called (?:after throwing|without an active|recursively)"),
    _row(UNHEEDED, "fatal python error: aborted", r"Fatal Python error: Aborted"),
    _row(
        "scheduler",
        "exited with exit code",
        r"(?:srun: error: .*task.*|^)Exited with exit code (?!13[04579]\b|143\b)[1-9]",
    ),
    _row(
        "scheduler",
        (
            "back-off",
            "backofflimitexceeded",
            "podfailurepolicy",
            "crashloopbackoff",
            "containerstatusunknown",
            "jobfailed",
            "init:error",
            " error ",
            "reason:",
            "exit code:",
            "exitcode: ",
            "  failed ",
            "reachedmaxrestarts",
            "faileduetoreplicafailure",
            "failedindexes",
            "jobset failed due to",
            "failedjobs",
            "appfailed",
            "rayclusterfailed",
            "specified backoff limit",
        ),
        r"[Bb]ack-off (?:\S{1,10} )?restarting failed container|has reached (?:the )?specified backoff limit|"
        + says(
            "BackoffLimitExceeded",
            "PodFailurePolicy(?!.*exit code 13[79])",
            "CrashLoopBackOff",
            "ContainerStatusUnknown",
            "ReachedMaxRestarts",
            "FailedIndexes",
            "MaxFailedIndexesExceeded",
            "FailedJobs",
            "AppFailed",
            "RayClusterFailed",
            r"\w{2,12}JobFailed",
        )
        + r"|^\S{1,100} {2,20}\d{1,3}/\d{1,3} {2,20}(?:Init:)?Error {2,20}\d|^Reason: {2,20}Error\s*$|"
        r"^(?:Exit Code: {2,20}|exitCode: )(?!0\b|13[79]\b|143\b)\d|^(?!Warning|"
        r"Normal)\S{1,100} {2,20}Failed {2,20}\d{1,4}[smhd]",
        undone=r"\b\w{2,12}JobSucceeded\b|\b(\d{1,3})/\1 {1,20}Running\b",
        outside=True,
        closing=True,
        source="Kubernetes pkg/controller/job, pkg/kubelet/kuberuntime; Kubeflow: the container's own log says why",
    ),
    _row(
        "scheduler",
        (
            "replica(s) failed",
            "jobset failed due to",
            "mpijob ",
            "entrypoint command failed with exit code",
            "exited with code ",
            "essential container in task exited",
            "non-zero status of ",
            "executeuserscripterror",
            "submitted script failed",
            "normal termination (return value",
            "algorithmerror",
            "spark driver has stopped",
            "driver is unresponsive",
        ),
        r"JobSet failed due to |\w{2,12}Job \S{1,100} is failed because \d+ \w{1,20} replica\(s\) failed|"
        r"jobset failed due to |"
        r"MPIJob \S{1,100} has failed|entrypoint command failed with exit code [1-9]|"
        r"^[\w.-]{1,80}[-_]\d{1,3} exited with code (?!0\b|13[79]\b)\d|Essential container in task exited|"
        r"exited with a non-zero status of (?!13[79]\b)\d|ExecuteUserScriptError|"
        r"^AlgorithmError: (?!.*exit code: 137)|"
        r"Submitted script failed with a non-zero exit code|Normal termination \(return value [1-9]|"
        r"The spark driver has stopped unexpectedly|Driver is unresponsive, likely due to GC",
        outside=True,
        closing=True,
        source="Kubeflow, JobSet, Ray, docker compose, AWS Batch, Vertex AI, SageMaker, Azure ML, HTCondor, Databricks",
    ),
    _row(
        "scheduler",
        ("terminat", "_step_signal", "srun: job step aborted"),
        r"srun: (?:Terminating|Force Terminat)|srun: launch/slurm: _step_signal|"
        r"srun: Job step aborted",
    ),
    _row("scheduler", ("job step aborted", "first task exited"), r"srun: Job step aborted|First task exited"),
    _row(
        "scheduler",
        ("due to task failure", "non-zero exit code or other failure mode", "wexitstatus "),
        r"CANCELLED AT \S{1,40} DUE TO TASK FAILURE|FAILED \(non-zero exit code or other failure mode\)|"
        r"_job_complete: Job(?:Id)?=\S{1,30} WEXITSTATUS [1-9]",
        outside=True,
        source="Slurm src/slurmd/slurmstepd/req.c, src/slurmctld/job_mgr.c",
    ),
    _row("scheduler", "cancelled at", r"slurmstepd: error: \*\*\* STEP .* CANCELLED AT (?!.*DUE TO)"),
    _row(
        "actors",
        ("raytaskerror", "creation task"),
        r"The actor died because of an error raised in its creation task|"
        r"RayTaskError(?!\()",
    ),
    _row(
        "actors",
        "unexpected system error",
        r"worker died or was killed .{0,60}unexpected system error",
        source="Ray: it lists what may have been the reason",
    ),
    _row(
        "actors", ("worker group", "actorunschedulable"), r"Worker group .* (?:failed|is unhealthy)|ActorUnschedulable"
    ),
    _row(
        "actors",
        ("actordiederror", "rayactorerror", "actorunavailableerror"),
        r"(?:Actor(?:Died|Unavailable)Error|RayActorError)",
    ),
    _row(
        "actors",
        ("workercrashederror", "localrayletdiederror"),
        r"WorkerCrashedError|LocalRayletDiedError",
        source="Ray: the log of the worker, or of the raylet, says why",
    ),
    _row(
        "launcher",
        "torchelastic.worker.status.failed",
        r"torchelastic\.worker\.status\.FAILED",
        source="torch/distributed/elastic/events: it holds the error file, if a rank wrote one",
    ),
    _row(
        "notebook",
        ("deadkernelerror", "kernel died"),
        r"DeadKernelError|\bKernel died(?: while waiting for execute reply|$)",
        source="nbclient, nbconvert, papermill: the kernel's own output, or the machine's log, says why",
    ),
    _row("actors", "raytaskerror(", r"^(?:ray\.exceptions\.)?RayTaskError\("),
    _row(
        "mpi",
        (
            "mpirun ",
            "mpiexec ",
            "prterun ",
            "orterun ",
            "prun ",
            "primary job",
            "application called mpi_abort",
            "bad termination of one of your",
            "process manager error waiting",
            "of the processes terminated badly",
        ),
        r"\b(?:mpirun|mpiexec|prterun|orterun|prun) (?:noticed that(?!.*on signal (?:4|6|7|8|9|11)\b)|"
        r"detected that|has exited)|Primary job\s+terminated normally|application called MPI_Abort\(|"
        r"BAD TERMINATION OF ONE OF YOUR APPLICATION|process manager error waiting for completion|"
        r"one of the processes terminated badly",
        source="MPICH hydra; Open MPI help-orterun.txt, PRRTE help-prun.txt",
    ),
    _row("trackers", "wandb", r"wandb: (?:ERROR )?.*(?:BrokenPipe|Problem at|ConnectionReset|ServiceStartTimeout)"),
    _row(
        "trackers",
        "handleabandonederror",
        r"^wandb\.sdk\.mailbox\.\S*HandleAbandonedError"
        r"[\s\S]*\nin (?:\S+ )*\S*wandb/sdk/lib/asyncio_manager\.py",
        source="wandb/sdk/mailbox: its service is gone, which ends nothing by itself",
    ),
    _row(
        UNHEEDED,
        "cannot schedule new futures",
        r"cannot schedule new futures after (?:interpreter )?shutdown",
        source="concurrent/futures: a task that comes while the program ends",
    ),
    _row(PEER, "stop_waiting response is expected", r"Stop_waiting response is expected", source="TCPStore"),
    _row(PEER, "connection closed by remote peer", r"Connection closed by remote peer", source="NCCL: socket.cc"),
    _row(
        ABORTED,
        ("detected by watchdog at work", "collective timeout from rank"),
        r"detected by watchdog at work|dump signal due to a collective timeout from rank \d",
        source="ProcessGroupNCCL",
    ),
    _row(
        ABORTED,
        "horovod has been shut down",
        r"Horovod has been shut down\. This was caused by an exception on one of the ranks",
        source="horovod/common/operations.cc",
    ),
    _row("mpi", "mpi_abort was invoked", r"MPI_ABORT was invoked on rank \d", source="Open MPI help-mpi-api.txt"),
    _row(
        "launcher",
        ("error for training job", "error for processing job"),
        r"UnexpectedStatusException: Error for (?:Training|Processing) job \S+: Failed",
        source="sagemaker/session.py: the training's own log says why",
    ),
    _row(
        ABORTED,
        "jax distributed service detected fatal errors",
        r"Terminating process because the JAX distributed service detected fatal errors",
        source="xla/pjrt/distributed/client.h: another task died",
    ),
    _row(
        "launcher",
        ("enginedeaderror", "background loop has errored already"),
        r"EngineDeadError: (?:EngineCore encountered an issue|Background loop has errored already)",
        source="vllm/v1/engine/exceptions.py: its trace stands above",
    ),
    _row(
        "wrapped",
        "checkpointexception ranks:",
        r"CheckpointException ranks:",
        source="torch/distributed/checkpoint/api.py: the exception of each rank stands in the message",
    ),
    _row("make", "make", r"^make(?:\[\d+\])?: \*\*\*(?!.*(?:Killed|Error 137)$)"),
    _row(
        "wrapped",
        ("papermillexecutionerror", "cellexecutionerror"),
        r"\b(?:PapermillExecutionError|CellExecutionError)\b",
        source="papermill, nbclient: the exception of the cell stands in the message",
    ),
)

HARMLESS: tuple[LogMessage, ...] = (
    _calm(
        "no-repository",
        "not a git repository",
        r"fatal: not a git repository",
        source="git: programs ask it for the version of their code",
    ),
    _calm(
        "exec-ended",
        "no such exec instance",
        r"Error response from daemon: No such exec instance",
        source="docker exec: the command had ended before somebody asked for its code",
    ),
    _calm(
        SERVICE,
        ("sigterm", "sighup", "sigint", "sigkill", "signal", "terminated"),
        r"(?:^|[\s\]])(?!slurm)(?:[\w@.-]{0,40}d|init|cron|CRON|NetworkManager|ModemManager|wpa_supplicant|"
        r"avahi-daemon|dbus-daemon|dhclient|gdm[\w-]*|lightdm|gnome-[\w-]+|Xorg|haproxy|nginx|apache2)"
        r"(?:\([\w-]{1,40}\))?\[\d{1,8}\]: .*?(?i:sig(?:term|hup|int|kill)|signal|terminated)",
        source="systemd-journald and other services: the machine starts, stops, or rotates its logs",
    ),
    _calm(
        SERVICE,
        ("signal", "sigsegv", "sigabrt", "sigbus", "segmentation fault", "killed", "terminated"),
        r"^(?:(?:<\d{1,3}>)?\[ {0,8}\d{1,8}\.\d{1,9}(?:@\d{1,3})?\]|.{0,80} kernel: |"
        r"init: )(?![^\n]*(?:Killed process|oom|"
        r"segfault at|general "
        r"protection|NVRM|python|torchrun|killed as a result|fatal signal))[^\n]*(?i:signal|sigsegv|"
        r"sigabrt|sigbus|killed|terminated)",
        source="a kernel's ring buffer into which init and services of a device write: none of them is the job",
    ),
    _calm(
        "exporter",
        "metrics exporter agent",
        r"Failed to establish connection to the (?:event\+)?metrics exporter agent",
        source="Ray src/ray/core_worker, src/ray/raylet/main.cc: metrics are not exported, the job goes on",
    ),
    _calm("factory", "unable to register", r"Unable to register \w+ (?:factory|plugin)", source="TensorFlow"),
    _calm(
        "tensorrt",
        ("could not find tensorrt", "tf-trt warning"),
        r"Could not find TensorRT|TF-TRT Warning",
        source="TensorFlow",
    ),
    _calm(
        "tensorflow",
        ("dso_loader", "cudart_stub"),
        r"(?:dso_loader|cudart_stub)\.cc:\d+\] Could not load dynamic library",
        source="TensorFlow: it then runs on the CPU",
    ),
    _calm(
        "no-net-plugin",
        (
            "net plugin",
            "no plugin found",
            "plugin load",
            "could not find: libnccl-net",
            "failed to open lib",
            "failed to find lib",
        ),
        r"NCCL INFO .*(?:[Nn]o plugin found|Plugin load.*returned|"
        r"Could not find: libnccl-net|Failed to (?:open|find) lib)",
        source="NCCL: the built-in transport is used",
    ),
    _calm(
        "conda",
        ("conda activate", "run 'conda init'", "conda deactivate"),
        r"CommandNotFoundError: Your shell has not been properly configured to use 'conda (?:de)?activate'|"
        r"CondaError: Run 'conda init' before 'conda (?:de)?activate'",
        source="conda: the script goes on with the environment that it has",
    ),
    _calm("nccl-info", "nccl info", r"NCCL INFO (?!.*(?:Abort|failed|error))"),
    _calm("tokenizers", "tokenizers", r"huggingface/tokenizers: The current process just got forked"),
    _calm("leak-warning", "resource_tracker", r"resource_tracker: There appear"),
    _calm(
        "deprecated",
        "warning",
        r"(?:Deprecat|Future|User|Pending|Runtime|Resource|Syntax|Import|Lightning)\w*Warning:"
        r"(?!.*(?:not compatible with the current PyTorch|driver on your system is too old|"
        r"CUDA initialization|compiled without GPU support))",
    ),
    _calm(
        "address-family",
        "server socket cannot be initialized on",
        r"The server socket cannot be initialized on \S{1,80} \(errno: 97",
        source="torch/csrc/distributed/c10d/socket.cpp: it then listens by IPv4",
    ),
    _calm("retry", "retry", r"(?i)\bretry(?:ing)?\b(?! count).{0,80}(?:in|after|\d+/\d+|attempt)"),
    _calm("retry", "backing off", r"\bBacking off \w.{0,400}? for \d", source="backoff: it calls again"),
    _calm(
        "metric",
        "error",
        r"(?i)(?:mean|val|test|train|abs|squared|rmse|reconstruction|percentage|prediction|"
        r"relative|word|character|top-?[15])[ _]?(?:absolute[ _]|squared[ _])?error(?: ?rate)?['\"]?\s*[:=(]",
    ),
)
