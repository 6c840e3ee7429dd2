"""ENV012 nccl-hobbled."""

import re
from collections.abc import Iterator

from gpudoctor.analysis.workload import optional, runs_here
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.job_devices import ranks_here
from gpudoctor_checks.environment.variables import environment_and_source, given

_SWITCHES = {
    "NCCL_P2P_DISABLE": ("P2P", say("GPUs no longer copy to each other over NVLink or PCIe, but through host memory")),
    "NCCL_SHM_DISABLE": ("SHM", say("ranks on one node that have no direct path talk over the network stack")),
    "NCCL_IB_DISABLE": ("IB", say("nodes talk over TCP sockets instead of InfiniBand or RoCE")),
    "NCCL_SOCKET_IFNAME": ("LO", say("NCCL listens on an interface that no other node reaches")),
}
"""Variables that take a path away from NCCL: which, and the effect."""
_OF_ONE_HOST = re.compile(r"=?(lo|docker\d|virbr\d|br-[0-9a-f]+|veth\w*|podman\d|cni\d)")
"""Interfaces that a host has for itself and its containers."""


class NcclHobbled(Check):
    """NCCL cannot use the fast paths between GPUs or nodes: switched off, or the wrong library.

    What it finds:
        - NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_IB_DISABLE and their relatives, in the environment, the job
          script or the script.
        - NCCL_SOCKET_IFNAME=lo or docker0 in a job of several nodes.
        - An NCCL that precedes torch's own on the loader path.
    Why it hurts:
        Gradients take a detour through host memory or TCP: all-reduce several times slower, on every step.
    How it knows:
        Variables of the environment and of the script. Installed packages. LD_LIBRARY_PATH, LD_PRELOAD.
    False alarms:
        With one GPU or none, a switch is a note: it costs nothing until the job grows. A machine whose P2P is
        truly broken needs the switch, and consumer cards without peer access do not use P2P.
    Remedies:
        Unset the variable; take the other library off the loader path.
    References:
        - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
        - https://github.com/NVIDIA/nccl/issues/631
    """

    code = "ENV012"
    reads = frozenset({Reads.ENVIRONMENT, Reads.SOURCE})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        yield from self._switches(patient)
        yield from self._libraries(patient)

    def _switches(self, patient: Patient) -> Iterator[Finding]:
        environment_and_source(patient)
        for name, (path, effect) in _SWITCHES.items():
            found = given(patient, name)
            text = found.value.strip().lower() if found is not None else ""
            # NCCL reads numbers, and leaves what is none at its default.
            off = _OF_ONE_HOST.fullmatch(text) if path == "LO" else text.isdigit() and int(text) != 0
            if found is not None and off:
                matters, why = _matters(patient, path)
                if path == "LO" and not matters:
                    continue
                breaks = say("the ranks never meet, and the job ends at its timeout") if path == "LO" else None
                yield self.finding(
                    say("{variable}={value}: {effect}{why}.", variable=name, value=found.value, effect=effect, why=why),
                    evidence=(found.evidence,),
                    confidence=Confidence.SUSPECTED if found.where == "source" else Confidence.CONFIRMED,
                    severity=Severity.ERROR if breaks else Severity.WARNING if matters else Severity.NOTE,
                    breaks=breaks,
                    subject=name,
                    detail=Facts(kind="switch", variable=name, library=""),
                )

    def _libraries(self, patient: Patient) -> Iterator[Finding]:
        packages, environment = optional(lambda: patient.packages), optional(lambda: patient.environment)
        there = packages.distributions if packages is not None else ()
        installed = tuple(sorted(name for name in there if name.startswith("nvidia-nccl-cu")))
        shadow = dict(environment.shadowing).get("libnccl.so") if environment is not None else None
        if environment is not None and shadow and installed:
            preloaded = shadow in environment.variables.get("LD_PRELOAD", "")
            variable = "LD_PRELOAD" if preloaded else "LD_LIBRARY_PATH"
            yield self.finding(
                say(
                    "{variable} has {shadow} in addition to torch's own NCCL ({installed}): which one is loaded "
                    "depends on torch's build.",
                    variable=variable,
                    shadow=shadow,
                    installed=installed[0],
                ),
                evidence=(environment.evidence(variable),),
                confidence=Confidence.PROBABLE,
                severity=Severity.WARNING if preloaded else Severity.NOTE,
                subject=variable,
                detail=Facts(kind="shadow", variable=variable, library=shadow),
            )


def _matters(patient: Patient, path: str) -> tuple[bool, str]:
    """Whether the path that is switched off would be used by this job, and the clause that says so."""
    survey, host = optional(lambda: patient.gpu_survey), optional(lambda: patient.host)
    job = optional(lambda: patient.job)
    gpus = len(survey.gpus) if survey is not None and runs_here(patient) else 0
    granted = job.gpus_granted if job is not None else None
    several = max(gpus, granted or 0, ranks_here(patient))
    nodes = job.nodes if job is not None else None
    if path == "LO":
        return (nodes or 1) > 1, say("; this job has {nodes} nodes", nodes=nodes)
    environment = optional(lambda: patient.environment)
    fabric = next((name for name in (environment.variables if environment else ()) if name.startswith("FI_")), None)
    if fabric and path in {"IB", "SHM"} and not runs_here(patient):
        return False, say(
            "; {variable} speaks of libfabric, and of its machine gpudoctor knows no more", variable=fabric
        )
    if path == "IB":
        if nodes == 1:
            return False, say("; this job has one node")
        if (nodes or 1) > 1:
            return True, say("; this job has {nodes} nodes", nodes=nodes)
        if host is not None and host.infiniband and runs_here(patient):
            return True, say("; this node has {infiniband}", infiniband=", ".join(host.infiniband[:4]))
        return False, say("; gpudoctor knows of no such network and no second node")
    if several < 2:
        return False, say("; one GPU needs neither") if gpus == 1 else say("; gpudoctor knows of no second GPU")
    return True, say("; {several} GPUs or ranks here share gradients", several=several)
