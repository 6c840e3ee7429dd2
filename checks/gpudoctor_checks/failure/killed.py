"""FAIL002 killed."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, LogLine, Patient, Reads, Severity, Threshold
from gpudoctor.text import capitalised, size
from gpudoctor_checks.failure.told_death import told_death


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

    code = "FAIL002"
    reads = frozenset({Reads.RECORDING, Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "end_messages.toml"
    thresholds = (
        Threshold("memory_share", 0.95, "1", "cgroup v2: the kernel kills a process when reclaim fails at the limit",
                  "Memory above this share of its limit at the end points at the out-of-memory killer."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = told_death(patient, "KILLED")
        if found is None:
            return
        (recording, told, _), end = found, found.recording.end
        lines = [
            line for line in (end.kernel if end else ()) if "oom" in line.lower() or "killed process" in line.lower()
        ]
        used, limit = _memory(recording, told.process.node if told.process is not None else "")
        near = limit > 0 and used >= self.limit("memory_share") * limit
        memory = told.kind in ("", "SIGKILL") and bool(lines or near or (end is not None and end.oom_kills))
        name, when, who = told.kind or "SIGKILL", found.when, found.who
        subject = capitalised(who)
        if memory:
            words = say("The kernel killed {who}{when} for memory ({name})", who=who, when=when, name=name)
            words += say(": {used} of {limit} were in use.", used=size(used), limit=size(limit)) if limit else "."
        else:
            words = say(
                "{subject} was ended by {name}{when} from outside; nothing indicates a lack of memory.",
                subject=subject,
                name=name,
                when=when,
            )
        yield self.finding(
            words,
            evidence=(
                *found.spans,
                *(LogLine(origin="the kernel", text=line) for line in lines[:3]),
                found.exit_code(),
                *([measured("memory_used", used, "B", recording)] if limit else []),
            ),
            breaks=say("the run was killed"),
            subject=name,
            detail=Facts(memory=memory),
        )


def _memory(recording: "of_run.Recording", node: str) -> tuple[float, float]:
    """Greatest bytes in use in the last samples of a node, and their limit; zeros where not known."""
    of_node = [item for item in recording.nodes if item.node == node]
    machine, facts = recording.machine, recording.machine_facts
    if of_node:
        machine, facts = of_node[0].machine, of_node[0].facts
    used = [value for value in machine.column("memory")[-5:] if value == value]
    limit = facts.get("cgroup_memory") or facts.get("memory") or 0
    return (max(used), float(limit)) if used and isinstance(limit, int | float) else (0.0, 0.0)
