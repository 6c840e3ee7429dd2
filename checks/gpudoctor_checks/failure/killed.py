"""FAIL002 killed."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.run.deaths import Death, death, user_place
from gpudoctor.analysis.run.risky_operations import killing_lines
from gpudoctor.analysis.run.steady_run import measured, spot
from gpudoctor.lang import say
from gpudoctor.model import (
    Bearing,
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    LogLine,
    LogMessage,
    Patient,
    Reads,
    Severity,
    Threshold,
    exit_code_cues,
    exit_code_form,
)
from gpudoctor.model.signs.recording import Recording
from gpudoctor.text import capitalised, size
from gpudoctor_checks.failure.kernel_messages import KERNEL_CRASHES
from gpudoctor_checks.failure.kubernetes_messages import ENDED_BY_KUBERNETES
from gpudoctor_checks.failure.notebook_messages import NOTEBOOKS
from gpudoctor_checks.failure.scheduler_messages import ENDED
from gpudoctor_checks.failure.slurm_messages import ENDED_BY_SLURM

_KILLED = (
    r"已杀死|已终结|已砍掉|被砍掉|強制終了|죽었음|Getötet|Processus arrêté|Tué|Terminado \(killed\)|Убито|"
    r"Ucciso|Morto"
)
_KILLED_CUES = (
    "已杀死", "已终结", "已砍掉", "被砍掉", "強制終了", "죽었음", "getötet", "processus arr", "tué",
    "terminado (killed)", "бито", "ucciso", "morto",
)  # fmt: skip
"""The word of the C library for SIGKILL in other languages."""


@dataclass(frozen=True, slots=True)
class KilledDetail(Detail):
    """What the rule reads."""

    memory: bool
    """The kernel killed it for memory."""


class Killed(Check):
    """The run was killed from outside.

    What it finds:
        A command that was ended by a signal from outside. The sender is the kernel or the control group
        (memory), a scheduler (time limit), or a person. If a program kills itself, the finding names its line.
    Why it hurts:
        The job ended without an exception and without a last checkpoint; its log simply stops.
    How it knows:
        From a recording:
        - the exit code and signal of the command
        - kills that the control group counted
        - the kernel's messages of that time
        - the memory of the machine in the last seconds

        From a job's log: the messages that name it, in the exception or line that came first. Beside the log:
        sacct, scontrol or kubectl output, and a kernel log. A kill in the kernel log counts if its control
        group, process or time fits this death.
    False alarms:
        A run that gpudoctor or the user stopped is not a death.
    Remedies:
        For memory: raise the limit, or reduce what uses it. For a time limit: ask for more, or save a
        checkpoint on a signal before it.
    References:
        - https://github.com/NVIDIA/nvidia-resiliency-ext
        - https://docs.kernel.org/admin-guide/cgroup-v2.html#memory
    """

    code = Code("FAIL002")
    name = "killed"
    reads = frozenset({Reads.RECORDING, Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_knobs = ("num_workers", "dataloader_num_workers")
    log_messages = (
        LogMessage(
            kind="oom-kernel",
            cue=("kill process", "killed process", "oom-kill:"),
            pattern=r"(?i:out of memory)(?: \([\w ]{1,40}\))?: [Kk]ill(?:ed)? process (?P<pid>\d+)"
            r"(?:, UID \d+,)? \((?P<program>[^)]*)\)|"
            r"oom-kill:.{0,300}task=(?P<task>[\w.-]+),pid=(?P<task_pid>\d+)",
            text="The kernel killed [process {pid} ({program})][{task}] because memory ran out[: it held "
            "{memory}][ (control group {cgroup})].",
            everywhere=True,
            source="Linux mm/oom_kill.c, 2.6 to 6.x",
        ),
        LogMessage(
            kind="oom-kernel",
            cue=("killed process", "oom_reaper"),
            pattern=r"(?:\bKilled|oom_reaper: reaped) process (?P<pid>\d+)(?:, UID \d+,)? "
            r"\((?P<program>[^)]*)\),? (?:total-vm:|vsz:|now )",
            text="The kernel killed [process {pid} ({program})][{task}] because memory ran out[: it held "
            "{memory}][ (control group {cgroup})].",
            everywhere=True,
            source="Linux mm/oom_kill.c: the line behind the choice, and the reaper's",
        ),
        LogMessage(
            kind="oom-kernel",
            cue=(
                "no killable processes",
                "killed by the oom killer",
                "systemd-oomd",
                "sending sigterm to process",
                "sending sigkill to process",
            ),
            pattern=r"[Oo]ut of memory(?: and|\.\.\.) no killable processes|"
            r"process of this unit has been killed by the OOM killer|"
            r"systemd-oomd(?:\[\d+\])?: Killed (?P<cgroup>/\S{1,200}) due to memory|"
            r"[Ss]ending SIG(?:TERM|KILL) to process \d+ uid \d+ \"(?P<program>[^\"]{1,40})\": .{0,40}VmRSS",
            text="Memory ran out on the host, and a process[ ({program})][ (control group {cgroup})] was killed.",
            everywhere=True,
            source="Linux mm/oom_kill.c; systemd; earlyoom",
        ),
        LogMessage(
            kind="oom-slurm",
            cue=(
                "oom_kill event",
                "oom-kill event",
                "oom kill event",
                "cgroup out-of-memory handler",
                "out_of_me",
                "job memory limit",
                "step memory limit",
                "exceeded memory limit",
                "task 0: out of memory",
                ": out of memory",
                "pbs: job killed: mem",
                "job exceeded a memory resource limit",
                "pbs: job killed: ",
            ),
            pattern=r"[Dd]etected \d+ oom[-_ ]kill event|"
            r"[Ss]ome of (?:your|the) (?:processes|step tasks) .{0,40}killed by the cgroup "
            r"out-of-memory handler|"
            r"\bOUT_OF_ME(?:MORY)?\b|[Ee]xceeded (?:job |step )?memory limit|"
            r"srun: error: .{0,200}: Out Of Memory\s*$|PBS: job killed: v?mem |"
            "Job exceeded a memory resource limit",
            text="Slurm's memory limit was reached. The kernel killed a process of the job[: it used {used}]"
            "[ and may use {limit}].",
            everywhere=True,
            source="Slurm",
        ),
        LogMessage(
            kind="oom-kubernetes",
            cue=(
                "oomkilled",
                "low on resource: memory",
                "term_memlimit",
                "exceeded its memory limit",
                "exceeded its local memory limit",
            ),
            pattern=r"\bOOMKilled\b(?!\"?: ?false)|node was low on resource: memory|TERM_MEMLIMIT|"
            r"exceeded its (?:local "
            ")?memory limit",
            text="The scheduler ended the job because it exceeded its memory limit[ of {limit}].",
            everywhere=True,
            outside=True,
            source="Kubernetes, LSF",
        ),
        LogMessage(
            kind="time-limit",
            cue=(
                "due to time limit",
                "term_runlimit",
                "walltime",
                "deadlineexceeded",
                "longer than specified deadline",
                "longer than the specified deadline",
                "time limit exceeded",
                "jobstate=timeout",
                "state: timeout",
                "wallclock limit",
            ),
            pattern=r"CANCELLED(?: AT (?P<when>\S+))? DUE TO TIME LIMIT|TERM_RUNLIMIT|"
            r"job killed: walltime \d+ exceeded limit|"
            r"(?:[Rr]eason[\"']?[:=] ?[\"']?|Warning {1,20}|Failed {1,20})DeadlineExceeded\b|"
            r"was active (?:on the node )?longer than (?:the )?specified deadline|"
            r"walltime.{0,20}exceeded|[Jj]ob exceeded (?:its )?(?:walltime|wallclock) limit|"
            r"(?:JobState=|^State: )TIMEOUT",
            text="The scheduler ended the job at its time limit[ of {limit}][ ({when})].",
            everywhere=True,
            source="Slurm, LSF, PBS, Kubernetes",
        ),
        LogMessage(
            kind="preemption",
            cue=(
                "due to preemption",
                "preempted",
                "preemption",
                "reclaimed",
                "preempting",
                "instance ",
                "instance-action",
                "spot interruption",
                "interruption notice",
                "instances ",
                "termination notice",
            ),
            pattern=r"DUE TO PREEMPTION|\b(?:[Jj]ob|[Nn]ode|[Ww]orker|[Ii]nstance)\b.{0,40}was preempted|"
            r"\bPREEMPTED\b|(?:[Rr]eason|[Ss]tatus)[\"']?[:=] *[\"']?(?:Preempted|Preempting)\b|"
            r"(?:Warning|Normal) {1,20}(?:Preempted|Preempting)\b|"
            r"Preempted (?:in order to admit critical pod|by (?:a )?pod )|instances? .{0,40}(?:reclaimed|"
            r"interrupted)|instance-action\b.{0,60}\b(?:terminate|stop|hibernate)\b|"
            "[Ss]pot (?:[Ii]nstance )?[Ii]nterruption (?:[Nn]otice|[Ww]arning)|"
            "(?:[Pp]reemption|[Ss]pot|[Ii]nstance) (?:[Ii]nterruption|[Tt]ermination) [Nn]otice",
            text="The scheduler preempted the job.",
            everywhere=True,
            source="Slurm, Kubernetes",
        ),
        LogMessage(
            kind="evicted",
            cue="evicted",
            pattern=r"(?:[Rr]eason|[Ss]tatus)[\"']?[:=] *[\"']?Evicted\b|\b\d+/\d+ {1,20}Evicted\b|"
            r"(?:Warning|Normal)\s{1,20}Evicted\b(?!.*MemoryPressure)(?:.*?low on resource: "
            r"(?P<resource>[\w-]{1,40}))?",
            text="Kubernetes evicted the pod[: its node ran low on {resource}].",
            everywhere=True,
            source="Kubernetes pkg/kubelet/eviction",
        ),
        LogMessage(
            kind="node-failure",
            cue=(
                "due to node failure",
                "node_fail",
                "node fail",
                "nodelost",
                "node shutdown",
                "its node has died",
                "nodediederror",
                "has been marked dead because",
            ),
            pattern=r"DUE TO NODE FAILURE|\bNODE_FAIL\b|\bNodeLost\b|"
            r"(?:srun|salloc|sbatch): error: Node failure on |\bnode failure on \S+ \(shell rank|"
            r"terminated in response to imminent node shutdown|"
            r"actor (?:is dead|died) because its node has died|\bNodeDiedError\b|"
            r"node with node id: .{0,200}has been marked dead because",
            text="A node of the job failed.",
            everywhere=True,
            source="Slurm, Flux, Kubernetes, Ray",
        ),
        LogMessage(
            kind="probe",
            cue="liveness probe, will be restarted",
            pattern=r"[Cc]ontainer \"?(?P<container>[\w.-]+)\"? failed liveness probe, will be restarted",
            text="Kubernetes restarted the container {container} because its liveness probe failed.",
            everywhere=True,
            source="Kubernetes pkg/kubelet/kuberuntime",
        ),
        LogMessage(
            kind="cancelled",
            cue=("cancelled at", "cancelled by", "term_owner", "term_admin", "stepd terminated"),
            pattern=r"(?:JOB \d+ ON \S+ )CANCELLED AT (?P<when>\S+) (?:\*\*\*|DUE [Tt][Oo] (?:SIGNAL|JOB "
            r"REQUEUE))|CANCELLED by \d+|TERM_(?:OWNER|ADMIN)\b|JOB \d+ STEPD TERMINATED",
            text="The job was cancelled[ by {who}][ at {when}]: by its user, an administrator or a limit.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
        ),
        LogMessage(
            kind="hangup",
            cue=("got signal: 1", "sighup", "hangup"),
            pattern=r"got signal: 1\b(?!\d)|Received SIGHUP|\bSIGHUP\b|killed by signal: Hangup|"
            r"^Hangup\s*$|task \d+: Hangup",
            text="The session that started the job was closed (SIGHUP).",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
        ),
        LogMessage(
            kind="interrupted",
            cue=(
                "sigint",
                "interrupt",
                "signal: 2",
                "signal 2",
                "^c",
                "ctrl-c",
                "ctrl+c",
                "ctrl + c",
                "stopped by ",
                "cancelled by ",
                "aborted by ",
                "window-close event",
                "control-c event",
            ),
            pattern=r"^KeyboardInterrupt\b|[Dd]etected KeyboardInterrupt|(?:got|received|caught)(?: a)? "
            r"(?:(?:signal:? )?SIGINT|signal:? 2\b)|[Rr]eceived SIGINT|srun: [Ii]nterrupt|\(SIGINT\)|"
            r"SIGINT (?:was )?(?:received|caught|detected)|(?:by|signal:?) SIGINT\b|"
            r"[Kk]eyboard ?[Ii]nterrupt(?:ion|ed)?\b.{0,40}(?:[Ee]xiting|[Ss]topp|[Ss]aving|received|caught)|"
            r"(?:[Tt]raining|[Rr]un|[Jj]ob|[Pp]rocess|[Pp]rogram|[Ee]xperiment) (?:was )?(?:interrupted|"
            r"stopped|cancelled|aborted) by (?:the )?user|^\^C(?:Traceback|\s*$)|killed by signal: Interrupt|"
            r"program aborting due to (?:window-CLOSE|control-C) event|"
            r"^(?:wandb: )?[Cc]trl(?: [+] |[+-])[Cc] (?:was )?(?:detected|pressed|received)",
            text="The job was interrupted from outside (SIGINT), as by Ctrl-C or scancel.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
        ),
        LogMessage(
            kind="sigkill",
            cue=(
                "sigkill",
                "return code = -9",
                "exit status 9",
                "signal 9",
                "killed",
                "terminated by signal 9",
                "killed by signal: 9",
                "make: ***",
                "]: ***",
                *exit_code_cues(-9),
                *exit_code_cues(137),
            ),
            pattern=r"exit ?code:? ?-9\b(?:\) local_rank: (?P<local_rank>\d+))?|"
            r"return code = -9\b|(?<!, )(?<!signal\.)\bSIGKILL\b(?! by OOM killer due to)|[Ss]ignal 9\b|"
            r"KILLED BY SIGNAL: 9\b|(?:^|"
            r"[:\s\]\d])Killed\s*(?:$|python|\()|task \d+: Killed|"
            # A shell: `run.sh: line 4: 4711 Killed   python train.py`; `[1]+  Killed`.
            r"^\S+: \S+ \d+: +\d+ Killed\b|"
            r"^\[\d+\][+-]? +Killed\b|^zsh: killed\b|[Tt]erminated by signal 9\b|"
            r"^make(?:\[\d+\])?: \*\*\* .{1,200} (?:Killed|Error 137)\s*$|"
            rf"{exit_code_form(-9)}|{exit_code_form(137)}",
            text="A process[ (local rank {local_rank})] was killed by SIGKILL[ (pid {pid})]. This log does not "
            "name the sender. Usually it is the kernel, because the host's memory ran out.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.SUSPECTED,
            everywhere=True,
            general=True,
            source="https://github.com/hpcaitech/ColossalAI/issues/3172",
        ),
        LogMessage(
            kind="sigkill",
            cue=_KILLED_CUES,
            pattern=rf"(?:^|[:\uff1a] {{1,6}}\d{{1,8}} +)(?:{_KILLED})(?=\s|$)",
            text="A process was killed by SIGKILL. This log does not name the sender. Usually it is the "
            "kernel, because the host's memory ran out.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.SUSPECTED,
            everywhere=True,
            general=True,
            source="glibc: the words of strsignal in other languages, which a shell prints",
        ),
        LogMessage(
            kind="sigterm",
            cue=(
                "signals.sigterm death signal",
                "got signal: 15",
                "got signal: sigterm",
                "got signal 15",
                "got signal sigterm",
                "15 death signal",
                "received sigterm",
                "*** sigterm",
                "sigterm received",
                "signal 15",
                "termination signal",
                "return code = -15",
                "terminated",
                *exit_code_cues(-15),
            ),
            pattern=r"Received Signals\.SIGTERM death signal|"
            r"got signal:? (?:15|SIGTERM)\b|[Rr]eceived (?:SIGTERM|signal 15|15 death signal)|"
            r"\*\*\* SIGTERM (?:\(@0x[0-9a-f]+\) )?received (?:by|at) |SIGTERM "
            rf"received|[Tt]ermination signal`? is detected|{exit_code_form(-15)}|caught signal 15|"
            r"return code = -15|^Terminated\s*$|^\S+: \S+ \d+: +\d+ Terminated\b|"
            r"^\[\d+\][+-]? +Terminated\b|tasks? [\d,-]{1,400}: Terminated|killed by signal: Terminated",
            text="The job received SIGTERM from outside: a limit, a preemption or a person ended it.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.SUSPECTED,
            everywhere=True,
            general=True,
        ),
        *ENDED,
        *ENDED_BY_KUBERNETES,
        *ENDED_BY_SLURM,
        *KERNEL_CRASHES,
        *NOTEBOOKS,
    )
    thresholds = (
        Threshold(
            name="memory_share",
            default=0.95,
            unit="1",
            source="cgroup v2: the kernel kills a process when reclaim fails at the limit",
            meaning="Memory above this share of its limit at the end points at the out-of-memory killer.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recorded_run
        told = death(recording)
        if told is None or told.death is not Death.KILLED:
            return

        end = recording.end
        lines = [
            line for line in (end.kernel if end else ()) if "oom" in line.lower() or "killed process" in line.lower()
        ]
        used, limit = _memory(recording, told.process.node if told.process is not None else "")
        near = limit > 0 and used >= self.limit("memory_share") * limit
        memory = told.kind in ("", "SIGKILL") and bool(lines or near or (end is not None and end.oom_kills))
        spans = [spot(patient, place) for place in killing_lines(patient)] if not memory else []
        stood = user_place(told)
        name = told.kind or "SIGKILL"
        when = say(" at step {step}", step=told.step) if told.step else ""
        many = told.process is not None and len(recording.ranks) > 1
        who = (
            say("rank {process_rank}", process_rank=told.process.rank)
            if many and told.process is not None
            else say("the training")
        )
        subject = capitalised(who)
        if memory:
            words = say("The kernel killed {who}{when} for memory ({name})", who=who, when=when, name=name)
            words += say(": {used} of {limit} were in use.", used=size(used), limit=size(limit)) if limit else "."
        elif spans:
            words = say(
                "{subject} was ended by {name}{when}, and the program itself sends signals "
                "({path}:{line}); nothing indicates a lack of memory.",
                subject=subject,
                name=name,
                when=when,
                path=spans[0].path,
                line=spans[0].line,
            )
        else:
            words = say(
                "{subject} was ended by {name}{when} from outside; nothing indicates a lack of memory.",
                subject=subject,
                name=name,
                when=when,
            )
        code = end.exit_code if end is not None and end.exit_code is not None else -1
        yield self.finding(
            words,
            evidence=(
                *spans,
                *([spot(patient, stood[0])] if stood is not None else []),
                *(LogLine(origin="the kernel", text=line) for line in lines[:3]),
                measured("exit_code", code, "1", recording),
                *([measured("memory_used", used, "B", recording)] if limit else []),
            ),
            confidence=Confidence.CONFIRMED,
            cost=Cost(breaks=say("the run was killed")),
            subject=name,
            detail=KilledDetail(memory),
        )


def _memory(recording: Recording, node: str) -> tuple[float, float]:
    """Greatest bytes in use in the last samples of a node, and their limit; zeros where not known."""
    of_node = [item for item in recording.nodes if item.node == node]
    machine, facts = recording.machine, recording.machine_facts
    if of_node:
        machine, facts = of_node[0].machine, of_node[0].facts
    used = [value for value in machine.column("memory")[-5:] if value == value]
    limit = facts.get("cgroup_memory") or facts.get("memory") or 0
    return (max(used), float(limit)) if used and isinstance(limit, int | float) else (0.0, 0.0)
