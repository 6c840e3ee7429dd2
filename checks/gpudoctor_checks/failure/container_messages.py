"""What Kubernetes and the runtimes of containers say of a container that cannot start."""

from gpudoctor.analysis.job_log.scheduler_words import BEGAN, STARTED, cues, says
from gpudoctor.model import Bearing, Confidence, LogMessage

_SANDBOX = (
    "FailedCreatePodSandBox", "FailedCreatePodSandbox", "CreatePodSandboxError", "ConfigPodSandboxError",
    "NetworkNotReady",
)  # fmt: skip
_STATES = (
    "CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun", "PreCreateHookError",
    "PreStartHookError", "PostStartHookError", "FailedPostStartHook",
)  # fmt: skip

CONTAINERS = (
    LogMessage(
        kind="sandbox",
        cue=cues(*_SANDBOX),
        pattern=says(*_SANDBOX) + r"(?:.*?(?:desc = |network is not ready: )(?P<why>.{0,299}[^\s.]))?",
        text="Kubernetes could not make the sandbox of the pod[: {why}].",
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        unstarted=True,
        undone=BEGAN,
        source="Kubernetes pkg/kubelet/kuberuntime/kuberuntime_manager.go, pkg/kubelet/kubelet.go",
    ),
    LogMessage(
        kind="container",
        cue="oci runtime ",
        pattern=r"OCI runtime (?:create|exec|start|attempted)(?: failed|\b).{0,20}?: (?:\S+\.go:\d+: )?"
        r"(?:runc (?:create|run) failed: |unable to start container process: |"
        r"starting container process caused: "
        r"|(?:\S+\.go:\d+: )?container init caused: |error during container init: |\\?\"){0,4}"
        r"(?P<why>(?:(?!: unknown\b).){0,299}[^\s.\\\"'])",
        text="The container could not start: {why}.",
        bearing=Bearing.SYMPTOM,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        undone=STARTED,
        source="runc libcontainer/process_linux.go; containerd; moby",
    ),
    LogMessage(
        kind="container",
        cue=cues(*_STATES),
        pattern=says(*_STATES),
        text="The container could not start. The events of the pod, and its message, name the reason.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        unstarted=True,
        undone=STARTED,
        source="Kubernetes pkg/kubelet/container/sync_result.go; containerd; dockershim",
    ),
    LogMessage(
        kind="container",
        cue=(
            "container creation failed",
            "could not open image",
            "docker daemon ",
            "pyxis: couldn't start container",
            "pyxis: failed to create container filesystem",
        ),
        pattern=r"\bFATAL: +(?:container creation failed|could not open image [^\n]{1,200}?): "
        r"(?P<why>.{0,299}[^\s.])|"
        r"(?P<daemon>Cannot connect to the Docker daemon at [^\s.]{1,100}|"
        r"permission denied while trying to connect "
        r"to the Docker daemon socket)|pyxis: (?:couldn't start container|"
        r"failed to create container filesystem)",
        text="The container could not start[: {why}][: {daemon}].",
        bearing=Bearing.SYMPTOM,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        source="Apptainer internal/pkg/runtime; docker; pyxis",
    ),
    LogMessage(
        kind="program",
        cue=(
            "executable file not found in $path",
            "executable file `",
            "exec format error",
            "exec user process caused",
            "no such file or directory",
            "permission denied",
            ": is a directory",
            "failed to execute '",
            "chdir to cwd",
        ),
        pattern=r"(?:unable to start container process|starting container process caused|StartContainer)"
        r"[^\n]{0,200}?exec: \\{0,3}\"(?P<program>[^\"\\]{1,200})\\{0,3}\": (?:executable file not found "
        r"in \$PATH|"
        r"stat \S+ no such file or directory|permission denied|is a directory)|"
        r"chdir to cwd \(\\{0,3}\"(?P<folder>[^\"\\]{1,200})\\{0,3}\"\) set in config\.json failed|"
        r"(?:^|\s)(?:\S+\.go:\d+: )?exec(?: (?P<file>/\S{1,200}|\S{1,200}\.sh)|"
        r" user process caused)?: (?:\\?\")?"
        r"(?:exec format error|no such file or directory|permission denied)|"
        r"executable file `(?P<name>[^`]{1,200})` not found in \$PATH|"
        r"\bFATAL: +\"(?P<command>[^\"]{1,200})\": executable file not found in \$PATH|"
        r"error: execve\(\): (?P<binary>\S+): Exec format error|"
        r"Failed to execute '(?P<job>[^']{1,200})'[^\n]{0,80}: (?:\(errno=\d+: ')?(?:No such file or directory|"
        r"Permission denied|Exec format error)",
        text="The program of the job cannot be opened[: {program}][: {file}][: {name}][: {command}][: {binary}]"
        "[: {job}][: the folder {folder}].",
        everywhere=True,
        outside=True,
        unstarted=True,
        undone=STARTED,
        source="runc libcontainer, crun, Apptainer, Slurm src/slurmd/slurmstepd/task.c, HTCondor starter",
    ),
    LogMessage(
        kind="volume",
        cue=(
            "provisioningfailed",
            "bind source path does not exist",
            "creating mount source path",
            "error mounting ",
            "to mount list",
            "doesn't exist in container",
            "enroot-mount: failed",
            "source path does not exist",
            "multi-attach error",
            "while mounting ",
        ),
        pattern=says("ProvisioningFailed") + r"(?: .{0,80}?(?P<claim>persistentvolumeclaim/\S{1,100}))?|"
        r"bind source path does not exist: (?P<path>\S{1,200}?)\.?(?:\s|$)|"
        r"error while creating mount source path '(?P<source>[^']{1,200})|"
        r"error mounting \\{0,3}\"(?P<from>[^\"\\]{1,200})\\{0,3}\" to rootfs|"
        r"\bFATAL: +container creation failed: .{0,100}?(?:unable to add (?P<unknown>\S{1,200}) to mount list|"
        r"while mounting (?P<mounted>[^\s:]{1,200}): .{0,60}doesn't exist)|"
        r"enroot-mount: failed to mount: (?P<folder>\S{1,200})|"
        r"--container-mounts: source path does not exist: (?P<given>\S{1,200})|Multi-Attach error for volume "
        r"\"(?P<volume>[^\"]{1,200})",
        text="A volume or folder of the container could not be mounted[: {path}][: {source}][: {from}][: "
        "{unknown}]"
        "[: {mounted}][: {folder}][: {given}][: {claim}][: {volume}].",
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        unstarted=True,
        undone=STARTED + r"|\bNormal\s{1,20}(?:ProvisioningSucceeded|SuccessfulAttachVolume)\b",
        source="moby daemon/volumes_unix.go; runc; Apptainer; enroot; Kubernetes pkg/controller/volume",
    ),
    LogMessage(
        kind="pod-config",
        cue=(
            "container has runasnonroot",
            "failed to prepare subpath",
            *cues("CreateContainerConfigError"),
            "error: configmap ",
            "error: secret ",
        ),
        pattern=says("CreateContainerConfigError") + r"(?:: \\{0,3}\"(?P<what>.{1,200}?)\\{0,3}\"\"?(?: pod=|\s*$))?|"
        r"(?P<user>container has runAsNonRoot and image (?:will run as root|has non-numeric user))|"
        r"failed to prepare subPath for volumeMount \\{0,3}\"(?P<mount>[^\"\\]{1,100})",
        text="Kubernetes could not start the container[: {what}][: {user}][: the subPath of {mount}]. What its "
        "pod asks for is not there or not allowed.",
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        unstarted=True,
        undone=STARTED,
        source="Kubernetes pkg/kubelet/kuberuntime/kuberuntime_container.go",
    ),
    LogMessage(
        kind="scheduler-file",
        cue=(
            "could not open stdout file ",
            "could not open stderr file ",
            "unable to open file ",
            "term_cwd_notexist",
            "input files failure",
            "data download failed",
        ),
        pattern=r"slurmstepd: error: Could not open std(?:out|"
        r"err) file (?P<file>\S{1,200}): (?:No such file|Permission "
        r"denied|Is a directory)|\bsbatch: (?:error|fatal): Unable to open file (?P<path>\S{1,200})|"
        r"TERM_CWD_NOTEXIST|Transfer (?:common )?input files failure.{0,200}?reading from file "
        r"(?P<source>[^\s:]{1,200})|"
        r"^ClientError: Data download failed:? ?(?P<said_by>.{0,199}[^\s.])",
        text="A file that the scheduler needs for the job is missing or forbidden[: {file}][: {path}][: "
        "{source}]"
        "[: {said_by}].",
        everywhere=True,
        outside=True,
        unstarted=True,
        source="Slurm src/slurmd/slurmstepd/io.c, src/sbatch; LSF; HTCondor; SageMaker",
    ),
)
