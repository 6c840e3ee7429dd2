"""Answers LOOP010: ask for the signal in time, and save when it comes."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.loop.sigterm_unhandled import SigtermUnhandledDetail

_SLURM = "https://slurm.schedmd.com/sbatch.html#OPT_signal"
_PODS = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"


class SigtermUnhandledRule(Rule):
    """Five minutes' warning is enough for a checkpoint of most models."""

    answers = Code("LOOP010")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        detail = finding.detail_of(SigtermUnhandledDetail)
        name = "SIGUSR1" if detail.slurm else "SIGTERM"
        handler = (
            "import signal",
            "stop = False",
            "def on_signal(number, frame):",
            "    global stop",
            "    stop = True",
            f"signal.signal(signal.{name}, on_signal)",
            "at the end of each step: if stop: save a checkpoint and leave the loop",
        )
        first: tuple[str, ...] = ()
        if detail.kubernetes:
            title, first = (
                "a handler that saves, 300 s to do it",
                ("terminationGracePeriodSeconds: 300  # in the pod",),
            )
        elif detail.slurm:
            batch = "" if detail.srun else "B:"
            title = f"--signal={batch}USR1@300 and a handler that saves"
            first = (f"#SBATCH --signal={batch}USR1@300", "#SBATCH --requeue")
            if batch:
                first = (*first, "trap 'kill -USR1 $pid' USR1; python train.py & pid=$!; wait $pid; wait $pid")
        else:
            title = "a handler that saves"
        yield Remedy(
            id="LOOP010-handler",
            title=title,
            steps=(*first, *handler),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
            references=(_PODS if detail.kubernetes else _SLURM,),
        )
