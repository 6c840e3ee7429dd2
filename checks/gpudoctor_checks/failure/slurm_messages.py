"""What Slurm's commands, slurmstepd, slurmctld's log and pyxis say of a job, beside what "
"scheduler_messages knows."""

from gpudoctor.model import Bearing, Confidence, LogMessage

_COMMAND = r"\b(?:s(?:run|batch|alloc|queue|cancel|info|acct|attach|bcast|control|stat|diag)|slurmd|slurmstepd): "

NOT_STARTED = (
    LogMessage(
        kind="slurm-config",
        cue=(
            "could not establish a configuration source",
            "failed to fetch config",
            "dns srv lookup failed",
            "resolve_ctls_from_dns_srv",
            "res_ninit error",
            "res_nsearch error",
            "res_nquery error",
            "unable to process configuration file",
            "unable to establish control",
            "parsing error at unrecognized key",
            "could not open/read/parse slurm",
            "slurm.conf",
        ),
        pattern=_COMMAND + r"(?:error|fatal): (?:\S{1,60}: )?(?P<why>Could not establish a configuration source|"
        r"failed to fetch config|DNS SRV lookup failed|res_n(?:init|search|query) error.{0,80}|"
        r"Unable to (?:process configuration file|establish control\w{0,5} machine).{0,80}|"
        r"Parsing error at unrecognized key.{0,80}|could not open/read/parse slurm.{0,80}|"
        r".{0,80}slurm\.conf.{0,80})",
        text="Slurm's command found no valid configuration on this node: {why}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        closing=True,
        unstarted=True,
        source="Slurm src/common/fetch_config.c, src/common/read_config.c, src/common/parse_config.c",
    ),
    LogMessage(
        kind="slurm-auth",
        cue=(
            "munge ",
            "if munged is up",
            "to any sack",
            "authentication",
            "zero bytes were transmitted",
            "credential",
            "replayed",
        ),
        pattern=_COMMAND + r"(?:error|fatal): (?:\S{1,60}: )?(?P<why>(?:If munged is up|Munge (?:encode|decode)|"
        r"Protocol authentication error|Invalid (?:authentication|job) credential|Zero Bytes were transmitted|"
        r"failed to connect to any sack|.{0,60}(?:authentication (?:failed|error)|[Cc]redential (?:expired|"
        r"revoked|"
        r"replayed))).{0,80})",
        text="Slurm does not accept the credential of this node or user: {why}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        closing=True,
        unstarted=True,
        source="Slurm src/plugins/auth, src/common/slurm_errno.c",
    ),
    LogMessage(
        kind="controller",
        cue=("unable to contact slurm controller", "socket timed out on send/recv", "connection refused"),
        pattern=r"\b(?:slurm_\w{3,40} error|s(?:queue|cancel|info|control|acct|attach|diag): error: .{0,100}?|"
        r"s(?:batch|run|alloc|queue|info|control): error: .{0,60}controller .{0,60}): ?"
        r"(?:Unable to contact slurm controller|Socket timed out on send/recv|Connection refused)",
        text="Slurm's controller did not answer.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        closing=True,
        unstarted=True,
        source="Slurm src/common/slurm_errno.c, src/common/slurm_protocol_api.c",
    ),
    LogMessage(
        kind="launch",
        cue=("slurmstepd: ",),
        pattern=r"\bslurmstepd: (?:fatal: (?P<fatal>.{3,200})|"
        r"error: (?:\S{1,60}: )?(?P<why>(?:TaskProlog failed|"
        r"Failed to look up username|_become_user failed|batch script setup failed|task_g_set_affinity|"
        r"spank.{1,60} failed|\w{2,40} plugin stack initialization failed|Plugin stack initialization failed|"
        r"Built without SELinux|User requested launch of zero|Invalid (?:MPMD configuration|task rank)|"
        r"Program for task rank|switch_g_\w{3,20}|proctrack_g_\w{3,20}|Unable to attach to interconnect|"
        r"pam_\w{3,20}|error in pam_setup|execve\(\): bad interpreter|mpi/\w{3,12}: |child fork: |fork: |"
        r"namespace_g_join|Failed to build container|Failed to read \w{2,12} conf).{0,160}))",
        text="Slurm could not start the job's processes[: {fatal}][: {why}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        source="Slurm src/slurmd/slurmstepd, src/plugins/mpi",
    ),
    LogMessage(
        kind="launch",
        cue=("srun: error: ", "salloc: error: ", "sattach: error: ", "sbcast: error: "),
        pattern=r"^s(?:run|alloc|attach|bcast): error: (?!Ignoring |.{0,160}(?:\bbusy|temporarily|[Rr]etry|"
        r"already complet|Socket timed out)|.{0,80}task|Timed out waiting for job step|"
        r"SLURM_EXIT|Unable to clean up|.{0,60}will be ignored)(?P<why>.{3,200}[^\s.])",
        text="The last line is an error of srun or salloc: {why}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        outside=True,
        general=True,
        last=True,
        source="Slurm src/srun, src/salloc, src/api, src/common",
    ),
    LogMessage(
        kind="container",
        cue="pyxis: ",
        pattern=r"\bslurmstepd: (?:error: )?pyxis: {3,12}(?P<why>(?!\[INFO\])(?:\[ERROR\] "
        r")?.{0,200}(?:cannot |[Cc]ould not |"
        r"[Ff]ailed|[Dd]enied|[Nn]o such|[Nn]ot found|[Ii]nvalid|[Uu]nable).{0,160})",
        text="The container could not start: {why}.",
        bearing=Bearing.SYMPTOM,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        source="pyxis enroot.c: it prints the log of enroot",
    ),
    LogMessage(
        kind="container",
        cue="pyxis: ",
        pattern=r"\b(?:slurmstepd|srun|sbatch|salloc): error: pyxis: (?!ignoring|printing|importing|"
        r"imported|if the image|"
        r"epilog|exported|failed to import|couldn't start container|failed to create container filesystem|"
        r"child \d+ (?:failed|terminated)|container start)(?P<why>[\w\"-].{3,200}[^\s.])",
        text="The container could not start: {why}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        source="pyxis args.c, pyxis_slurmstepd.c",
    ),
    LogMessage(
        kind="container",
        cue="fatal: ",
        pattern=r"^FATAL: {2,6}(?P<why>.{3,240}[^\s.])",
        text="Apptainer or Singularity stopped: {why}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        source="Apptainer pkg/sylog, cmd/internal/cli",
    ),
    LogMessage(
        kind="container",
        cue=("erro[", "enroot-", "[error] command not found: ", "[error] could not ", "[error] invalid image"),
        pattern=r"^ERRO\[\d{4}\] (?!.{0,60}(?:waiting for container|cleaning up|"
        r"signal))(?P<why>.{3,240}[^\s.])|"
        r"\benroot-(?:mount|nsenter|switchroot|aufs2ovlfs|mksquashovlfs): (?P<enroot>failed to .{3,200}[^\s.])|"
        r"^\[ERROR\] (?P<said_by>Command not found: \S{2,80}|Could not (?:process JSON|acquire rootfs|"
        r"find kernel|parse "
        r"authentication|retrieve digest).{0,100}|Invalid image (?:format|reference).{0,160})",
        text="The container could not start[: {why}][: {enroot}][: {said_by}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        source="runc, docker and podman (logrus); enroot bin/, src/",
    ),
)
"""Of FAIL020."""

ENDED_BY_SLURM = (
    LogMessage(
        kind="sigkill",
        cue="wtermsig 9",
        pattern=r"\b_job_complete: Job(?:Id)?=\S{1,30} WTERMSIG 9\b",
        text="Slurm's controller records that the job ended by SIGKILL. This line does not name the sender.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        outside=True,
        general=True,
        source="Slurm src/slurmctld/job_mgr.c",
    ),
    LogMessage(
        kind="sigterm",
        cue="wtermsig 15",
        pattern=r"\b_job_complete: Job(?:Id)?=\S{1,30} WTERMSIG 15\b",
        text="Slurm's controller records that the job ended by SIGTERM: a limit, a preemption or a person ended it.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        outside=True,
        general=True,
        source="Slurm src/slurmctld/job_mgr.c",
    ),
    LogMessage(
        kind="time-limit",
        cue="time limit exhausted for job",
        pattern=r"Time limit exhausted for Job(?:Id)?=\S",
        text="The scheduler ended the job at its time limit.",
        everywhere=True,
        outside=True,
        source="Slurm src/slurmctld/job_mgr.c",
    ),
    LogMessage(
        kind="preemption",
        cue=("preempted job", "has been preempted"),
        pattern=r"\bpreempted Job(?:Id)?=\S{1,30} has been|\bJob(?:Id)?=\S{1,30} .{0,40}has been preempted",
        text="The scheduler preempted the job.",
        everywhere=True,
        outside=True,
        source="Slurm src/slurmctld/preempt.c",
    ),
    LogMessage(
        kind="node-failure",
        cue=("on failed node ", "due to failure of node", "not responding, setting down", "node_did_resp"),
        pattern=r"Killing Job(?:Id)?=\S{1,30} (?:.{0,40} )?on failed node (?P<where>\S{1,80})|"
        r"[Rr]equeu\w{0,4} (?:job )?Job(?:Id)?=\S{1,30} due to failure of node (?P<node>\S{1,80})|"
        r"error: Nodes (?P<nodes>\S{1,200}) not responding, setting DOWN",
        text="A node of the job failed[: {where}][: {node}][: {nodes}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        source="Slurm src/slurmctld/job_mgr.c, src/slurmctld/ping_nodes.c",
    ),
    LogMessage(
        kind="cancelled",
        cue="request_kill_job job",
        pattern=r"\bREQUEST_KILL_JOB Job(?:Id)?=\S{1,30} uid (?P<who>\d{1,10})",
        text="The job was cancelled by the user with the number {who}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        source="Slurm src/slurmctld/proc_req.c",
    ),
)
"""Of FAIL002."""
