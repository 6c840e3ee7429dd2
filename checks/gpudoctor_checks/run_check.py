"""The frame of a check that suspects from the source what a run measures."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.steady_run import LEAST_STEPS, Run, judged, ran_on_cpu, watched
from gpudoctor.model import Check, Finding, Patient, Reads


class RunCheck(Check):
    """A watched process decides, else a recorded run that is long enough; without both, the suspicions stand."""

    on_gpu: ClassVar[bool] = False
    """Whether a run on the CPU refutes it."""
    least_steps: ClassVar[float] = LEAST_STEPS
    """Steady steps from which on a recorded run decides."""

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if Reads.PROCESS in self.reads and (window := watched(patient)) is not None:
            yield from self.live(patient, window)
            return
        run = self.run(patient)
        suspected = suspicions(lambda: self.suspected(patient), run, refuted=self.on_gpu and ran_on_cpu(patient))
        yield from self.measured(patient, run, suspected) if run is not None else suspected

    def run(self, patient: Patient) -> Run | None:
        """The recorded run that decides."""
        return judged(patient, self.least_steps)

    @abstractmethod
    def suspected(self, patient: Patient) -> Iterable[Finding]:
        """What the source alone shows; raises `Unavailable` without one."""

    @abstractmethod
    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterable[Finding]:
        """What the run makes of it."""

    def live(self, patient: Patient, window: "of_run.ProcessWindow") -> Iterable[Finding]:
        """What a watched process shows, for checks that read one."""
        raise NotImplementedError
