"""Answers ENV008 limits-too-low."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.environment.limits_too_low import LimitsTooLowDetail

_FILES = 65536
"""Open files: what NVIDIA's and Ray's containers set; far from what a kernel gives out."""
_CONF = "https://man7.org/linux/man-pages/man5/limits.conf.5.html"
_FLAGS = {"open files": "-n", "locked memory": "-l", "processes": "-u"}
_NAMES = {"open files": "nofile", "locked memory": "memlock", "processes": "nproc"}


class LimitsTooLowRule(Rule):
    """The ulimit line where the hard limit allows it, else what the administrator or the container must set."""

    answers = Code("ENV008")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(LimitsTooLowDetail)
        kind = detail.kind
        if kind not in _FLAGS:
            return
        wanted = _wanted(kind, detail.need)
        hard = detail.hard
        if hard == -1 or (wanted is not None and hard >= wanted):
            yield self._ulimit(kind, wanted)
        else:
            yield self._raise_hard(kind, wanted, patient)

    def _ulimit(self, kind: str, wanted: int | None) -> Remedy:
        text = "unlimited" if wanted is None else str(wanted)
        line = f"ulimit {_FLAGS[kind]} {text}"
        return Remedy(
            id=f"{self.answers}-ulimit",
            title=line,
            steps=(say("{line}   # in the job script, before the launch line", line=line),),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            sets=((f"RLIMIT_{_NAMES[kind].upper()}", text),),
        )

    def _raise_hard(self, kind: str, wanted: int | None, patient: Patient) -> Remedy:
        host = optional(lambda: patient.host)
        container = host.container if host is not None else None
        name, text = _NAMES[kind], "unlimited" if wanted is None else str(wanted)
        flag = "-1" if wanted is None else text
        if container in {"docker", "podman"}:
            extra = f"--pids-limit={flag}" if kind == "processes" else f"--ulimit {name}={flag}:{flag}"
            title, effort = say("{container} run {extra}", container=container, extra=extra), Effort.SETTING
            steps: tuple[str, ...] = (say("{container} run {extra} ...", container=container, extra=extra),)
        elif container == "kubernetes":
            title = say("raise {kind} for pods to {text} on the node", kind=kind, text=text)
            steps = (
                say("podPidsLimit in the kubelet's configuration")
                if kind == "processes"
                else say(
                    "the limit comes from the container runtime's service: Limit{name}={text} there",
                    name=name.upper(),
                    text=text,
                ),
            )
            effort = Effort.ADMINISTRATOR
        else:
            title = say("ask the administrator for {name} {text}", name=name, text=text)
            steps = (
                say("in /etc/security/limits.d/training.conf: * - {name} {text}", name=name, text=text),
                say(
                    "under Slurm, for slurmd too: systemctl edit slurmd, Limit{name}={infinity}",
                    name=name.upper(),
                    infinity=say("infinity") if wanted is None else text,
                ),
            )
            effort = Effort.ADMINISTRATOR
        return Remedy(
            id=f"{self.answers}-limit",
            title=title,
            steps=steps,
            applicability=Applicability.DISPLAY_ONLY,
            effort=effort,
            sets=((f"RLIMIT_{name.upper()}", text),),
            references=(_CONF,),
        )


def _wanted(kind: str, need: int) -> int | None:
    """The value to set; None is unlimited."""
    if kind == "locked memory":
        return None
    if kind == "open files":
        return _FILES
    wanted = 4096
    while wanted < 2 * need:  # the user's other processes count too
        wanted *= 2
    return wanted
