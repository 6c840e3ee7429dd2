"""FAIL020 start-failed."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Bearing, Code, Confidence, LogMessage
from gpudoctor_checks.failure.container_messages import CONTAINERS
from gpudoctor_checks.failure.kubernetes_messages import NO_PLACE
from gpudoctor_checks.failure.refused_messages import REFUSALS
from gpudoctor_checks.failure.slurm_messages import NOT_STARTED

_NO_COMMAND = (
    r"未找到命令|找不到命令|找不到指令|命令找不到|コマンドが見つかりません|명령어를 찾을 수 없음|"
    r"(?:Kommando|Befehl) nicht gefunden|commande introuvable|(?:orden|comando) no encontrad[oa]|"
    r"no se encontró la orden|comando não encontrado|comando non trovato|команда не найдена"
)
_NO_COMMAND_CUES = (
    "未找到命令", "找不到命令", "找不到指令", "命令找不到", "コマンドが見つかりません", "명령어를",
    "nicht gefunden",
    "commande introuvable", "no encontrad", "la orden", "comando n", "команда не найдена",
)  # fmt: skip
"""What bash says of a missing command in other languages."""


class StartFailed(LogCheck):
    """A start failed: the scheduler, the container's runtime or the shell refused it.

    What it finds:
        - A pod or job for which no node, quota or machine of the cloud has room.
        - A request that Slurm, Kubernetes, Docker or another scheduler refuses, or holds in its queue.
        - A container whose sandbox, volume, secret or runtime fails.
        - A program of the job script that is not there, or a syntax error in that script.
    Why it hurts:
        Nothing trains, and the queue's time is lost. A pod may wait for days without any log of its own.
    How it knows:
        From a job's log, events or records: texts that only the scheduler, the runtime or the shell prints. A
        later line that shows a start takes them back.
    False alarms:
        A pod that waits for a short time is normal. If the cluster is only full, the finding is not certain.
    Remedies:
        Request what a node, the partition or the quota allows. Correct what the message names in the job's
        script, manifest or image.
    References:
        - https://kubernetes.io/docs/concepts/scheduling-eviction/
        - https://slurm.schedmd.com/job_reason_codes.html
        - https://github.com/opencontainers/runc
    """

    code = Code("FAIL020")
    name = "start-failed"
    log_messages = (
        *REFUSALS,
        *CONTAINERS,
        LogMessage(
            kind="program",
            cue=("can't open file", "can't find '__main__'", "execve()", ": permission denied", ": no such file"),
            pattern=r"(?:^|[\s:\\/])python[\d.]{0,6}(?:\.exe)?: can't open file ?"
            r"(?:'?(?P<file>[^'\n]{1,300}?)'?: \[Errno|'?[^'\n]{0,200}$)|"
            r"^\S*python[\d.]*: can't find '__main__' module in '?(?P<folder>[^'\n]{1,300})|"
            r"error: execve\(\): (?P<program>\S+): (?:No such file|Permission denied)|"
            r"^(?:\S*/)?(?:ba|da|z|k)?sh: (?:line )?(?:\d+: )?(?P<script>\S+\.(?:sh|py)): (?:No such file|"
            "Permission denied)",
            text="The program that the job starts cannot be opened[: {file}][: {folder}][: {program}][: {script}].",
            everywhere=True,
            unstarted=True,
            closing=True,
            source="python, bash, slurmstepd",
        ),
        LogMessage(
            kind="program",
            cue=("executable file not found in $path", "no such file or directory", ": permission denied"),
            pattern=r"(?:unable to start container process|starting container process caused)[^\n]{0,100}?"
            r"exec: \\?\"(?P<program>[^\"\\]{1,200})\\?\": (?:executable file not found in \$PATH|"
            r"stat \S+ no such file or directory|permission denied)",
            text="The program that the job starts cannot be opened: {program}.",
            everywhere=True,
            unstarted=True,
            outside=True,
            source="runc: libcontainer/standard_init_linux.go",
        ),
        LogMessage(
            kind="program",
            cue=("was unable to find the specified", "was unable to launch the specified"),
            pattern="(?:mpirun|mpiexec|prterun) was unable to (?:find the specified executable|"
            "launch the specified application)",
            text="mpirun could not open the program that the job starts.",
            everywhere=True,
            unstarted=True,
            closing=True,
            source="Open MPI help-orterun.txt",
        ),
        LogMessage(
            kind="volume",
            cue=(
                "failedmount",
                "failedattachvolume",
                "failedmapvolume",
                "mount volumes",
                "mountvolume.",
                "attachvolume.",
                "mapvolume.",
            ),
            pattern=r"\bWarning\s{1,20}Failed(?:Mount|AttachVolume|MapVolume)\b(?:.*?(?:unmounted volumes=\[|"
            r"for volume \"|unattached/unmounted volumes=\[)(?P<volume>[^\]\"]{1,200}))?|"
            r"^(?:Unable to (?:attach or )?mount volumes(?: for pod|:)|"
            r"(?:Mount|Attach|Map)Volume\.\w{1,20} failed for volume \"(?P<other>[^\"]{1,200}))",
            text="Kubernetes could not mount a volume of the pod[: {volume}][: {other}].",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            unstarted=True,
            outside=True,
            undone=r"\bNormal\s.{0,60}\b(?:Pulling|Pulled|Created|Started)\s|"
            r"Volume\.\w{1,20} succeeded for volume|[Ss]tarted container\b",
            source="Kubernetes pkg/kubelet/kubelet.go, pkg/controller/volume: events, which come again",
        ),
        LogMessage(
            kind="pod-config",
            cue=("createcontainerconfigerror", 'error: secret "', 'error: configmap "', "error: couldn't find key"),
            pattern=r"\bWarning\s.{0,200}Error: (?P<what>(?:secret|configmap) \"[^\"]{1,200}\" not found|"
            r"couldn't find key \S{1,200} in \w{1,20} \S{1,200})|"
            r"(?:[Rr]eason[\"']?[:=] *[\"']?|\b\d+/\d+ {1,20})CreateContainerConfigError\b",
            text="Kubernetes could not start the container[: {what}]: its pod names a secret or a ConfigMap "
            "that is not there.",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            unstarted=True,
            outside=True,
            undone=r"\bNormal\s.{0,60}\bStarted\s|[Ss]tarted container\b",
            source="Kubernetes pkg/kubelet/kuberuntime",
        ),
        LogMessage(
            kind="job-script",
            cue="syntax error",
            pattern=r"^\S+: (?:line )?(?P<line>\d+): syntax error(?:: unexpected\b|:? near unexpected\b)|"
            r"^\S+: \d+: Syntax error: |^(?:/bin/)?sh: syntax error: unexpected\b",
            text="The shell stopped at a syntax error in the job script[, line {line}].",
            everywhere=True,
            closing=True,
            source="bash, dash, busybox",
        ),
        LogMessage(
            kind="job-script",
            cue=": cd: ",
            pattern=r"^\S+: (?:line )?\d+: cd: (?P<folder>\S{1,300}): (?:No such file or directory|"
            "Not a directory|Permission denied)",
            text="The job script could not change into the folder {folder}.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            last=True,
            unstarted=True,
            source="bash",
        ),
        LogMessage(
            kind="any-program",
            cue=(
                ": no such file or directory",
                ": permission denied",
                ": not found",
                "bad interpreter",
                ": cannot execute",
            ),
            pattern=r"^\S+: (?:line )?(?:\d+: )?(?P<program>[^\s:]{0,300}/[^\s:]{0,300}): (?:No such file or "
            r"directory|not found|Permission denied|cannot execute\b.{0,80}|(?P<interpreter>\S{1,200}): bad "
            r"interpreter\b.{0,80})\s*$",
            text="The shell could not start {program}[: its interpreter {interpreter} is not there].",
            everywhere=True,
            unstarted=True,
            general=True,
            exits=(126, 127),
            source="bash, dash",
        ),
        LogMessage(
            kind="no-command",
            cue=("command not found", "failed to run command", ": not found", *_NO_COMMAND_CUES),
            pattern=r"^(?:\S+[:\uff1a] ?)?(?:\S{1,10} )?(?:\d+(?: \S)?[:\uff1a] ?)?"
            r"(?P<command>python[\d.]*|torchrun|accelerate|deepspeed|"
            r"mpirun|mpiexec|srun|horovodrun|ray|uv|poetry|singularity|apptainer|docker|llamafactory-cli|"
            rf"composer|colossalai)(?:: (?:command )?not found|[:\uff1a] ?(?:{_NO_COMMAND}))\s*$|"
            r"failed to run command .(?P<program>[\w./+-]{1,200}).: No such file",
            text="The shell of the job found no command [{command}][{program}]: its environment is not active.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            unstarted=True,
            closing=True,
            source="bash, dash, nohup",
        ),
        LogMessage(
            kind="no-command",
            cue=("is not recognized as", "不是内部或外部命令"),
            pattern=r"(?:^|[Tt]he term )'(?P<command>python[\d.]*|torchrun|accelerate|deepspeed|"
            r"pip\d?|conda|nvcc|wandb|ray|uv)' (?:is not recognized as|不是内部或外部命令)",
            text="Windows found no command {command}: it is not installed, or its environment is not active.",
            everywhere=True,
            unstarted=True,
            closing=True,
            source="cmd.exe, PowerShell",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="any-command",
            cue=("command not found", ": not found", ": no such file or directory"),
            pattern=r"^\S+: (?:line )?\d+: (?P<command>[^\s:/]{1,200}): (?:command )?not found\s*$|"
            r"^\S+: (?P<name>[^\s:/]{1,200}): (?:command )?not found\s*$|"
            r"^\S*sh: command not found: (?P<word>\S{1,200})\s*$|"
            r"^\S*env: \W?(?P<program>[^\s:/]{1,200}?)\W?: No such file or directory\s*$",
            text="The shell found no command [{command}][{name}][{word}][{program}].",
            everywhere=True,
            unstarted=True,
            general=True,
            exits=(127,),
            source="bash, dash, zsh, env",
        ),
        LogMessage(
            kind="launch",
            cue=(
                "detected an attempt to run as root",
                "not enough slots available in the system",
                "allocated for this job are already filled",
            ),
            pattern="mpirun has detected an attempt to (?P<root>run as root)|There are (?P<slots>not "
            "enough slots available) in the system|(?P<nodes>All nodes which are allocated "
            "for this job are already filled)",
            text="mpirun refuses to start the processes[: {root}][: {slots}][: {nodes}].",
            everywhere=True,
            unstarted=True,
            closing=True,
            source="Open MPI help-orterun.txt, help-orte-rmaps-base.txt",
        ),
        LogMessage(
            kind="launch",
            cue=("task launch for ", "application launch failed"),
            pattern=r"(?:srun|salloc|mpirun|prun): error: (?:Task launch for (?:StepId=)?\S{1,40} "
            r"failed on node (?P<where>\S{1,100}): (?P<why>.{1,200}?)|"
            r"Application launch failed: (?P<reason>.{1,200}?))\s*$",
            text="Slurm could not start the job[ on node {where}][: {why}][: {reason}].",
            everywhere=True,
            unstarted=True,
            outside=True,
            source="Slurm src/api/step_launch.c",
        ),
        LogMessage(
            kind="launch",
            cue=(
                "launch failed: ",
                "waiting for task launch",
                "boot of the nodes",
                "too many failed attempts to run",
                "are still not ready",
                "unable to confirm allocation",
                "has expired",
                "aborting, ",
                "failed to invoke task plugins",
                "io setup failed",
                "exiting abnormally",
                "failed to invoke spank plugin stack",
                "unable to write ",
            ),
            pattern=r"srun: error: task \d+ launch failed: (?P<why>.{0,199}[^\s.])|"
            r"srun: error: timeout waiting for task launch, started (?P<started>\d+ of \d+)|"
            r"s(?:run|alloc): error: (?:Something is wrong with the boot of the nodes|"
            r"Nodes \S{1,200} are still not ready)|"
            r"srun: error: (?:Unable to confirm allocation for job \d+: (?P<reason>.{1,160}?)|"
            r"Slurm job \d+ has expired)\.?"
            r"\s*$|srun: error: (?:\S{1,60}: ){0,2}[Aa]borting, "
            r"(?:io error|step missing|can not test connection)|"
            r"slurmstepd: error: (?:Failed to invoke (?:task plugins|spank plugin stack)|IO setup failed|"
            r".{0,60}unable to "
            r"write .{1,80} to cgroup)|Job held, too many failed attempts to run|"
            r"job_manager: exiting abnormally: (?P<said_by>.{0,159}[^\s.])",
            text="The scheduler could not start the job[: {why}][: {reason}][: {said_by}][: {started} tasks started].",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            outside=True,
            closing=True,
            unstarted=True,
            source="Slurm src/api/step_launch.c, src/srun/allocate.c, src/slurmd/slurmstepd",
        ),
        LogMessage(
            kind="controller",
            cue=("unable to contact slurm controller", "socket timed out on send/recv"),
            pattern=r"\bs(?:batch|run|alloc): error: .{0,100}(?:Unable to contact slurm controller|"
            r"Socket timed out on send/recv)",
            text="Slurm's controller did not answer, so it may not have the job.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            outside=True,
            closing=True,
            unstarted=True,
            undone=r"\bSubmitted batch job \d+|Granted job allocation",
            source="Slurm src/common/slurm_errno.c, src/sbatch/sbatch.c",
        ),
        LogMessage(
            kind="scheduler",
            cue=("batch job submission failed: ", "unable to allocate resources: "),
            pattern=r"(?:sbatch|srun|salloc): error: (?:Batch job submission failed|Unable to allocate "
            r"resources): (?!.*(?:busy|[Ss]ocket timed out|temporarily|"
            r"slurm controller|already complet))(?P<why>.{1,200}?)\s*$",
            text="Slurm refused the job: {why}.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            unstarted=True,
            outside=True,
            closing=True,
            source="Slurm src/sbatch/sbatch.c, src/srun",
        ),
        LogMessage(
            kind="step",
            cue="unable to create step for job ",
            pattern=r"srun: error: Unable to create step for job \d+: (?!.*(?:busy|[Ss]ocket timed out|"
            r"temporarily|slurm controller|already complet))(?P<why>.{1,200}?)\s*$",
            text="The job runs, and Slurm refused a step of it: {why}.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            outside=True,
            closing=True,
            source="Slurm src/srun",
        ),
        LogMessage(
            kind="device-plugin",
            cue="allocate failed due to ",
            pattern=r"Allocate failed due to (?!.*GPU is lost)(?P<refusal>.{1,300}?)"
            r"(?:,? which is unexpected.*)?\s*$",
            text="Kubernetes rejected the pod, because the device plugin of its node gave it no device[: {refusal}].",
            everywhere=True,
            unstarted=True,
            outside=True,
            undone=r"\bNormal\s.{0,60}\bStarted\s",
            source="Kubernetes pkg/kubelet/cm/devicemanager",
        ),
        LogMessage(
            kind="admission",
            cue="unexpectedadmissionerror",
            pattern=r"\bReason: +UnexpectedAdmissionError\b|\b\d+/\d+ {1,20}UnexpectedAdmissionError\b",
            text="The node of the pod rejected it, most often because it had no free device for it.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            unstarted=True,
            outside=True,
            undone=r"\bNormal\s.{0,60}\bStarted\s",
            source="Kubernetes pkg/kubelet/lifecycle",
        ),
        *NO_PLACE,
        *NOT_STARTED,
    )
