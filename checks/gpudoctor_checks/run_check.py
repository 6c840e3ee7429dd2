"""The frame of a check that suspects from the source what a run measures."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import Observation, suspicions
from gpudoctor.analysis.run.steady_run import LEAST_STEPS, Run, judged, judged_by_share, ran_on_cpu, watched
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Whose
from gpudoctor_checks.declared import PeriodDetail


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


class RecurringCheck(RunCheck):
    """The frame of a check on what comes now and then and takes a phase of its own."""

    phase: ClassVar[str]
    whose: ClassVar[Whose] = Whose.HOST
    sentence: ClassVar[str]
    """A template of `cost`, `often` and `where`."""
    measures: ClassVar[str]
    """The name of the share, as people read it: `checkpoint share`."""

    def run(self, patient: Patient) -> Run | None:
        """A short one too, if the phase is dear in it."""
        return judged_by_share(patient, self.limit("share_warned"), self.phase)

    def live(self, patient: Patient, window: "of_run.ProcessWindow") -> Iterable[Finding]:
        """The phase in the samples."""
        seen = of_run.recurring_live(window, self.phase, whose=self.whose)
        return self.recurs(patient, seen, suspicions(lambda: self.suspected(patient), seen))

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterable[Finding]:
        """The phase in the steps of a run."""
        return self.recurs(patient, self.seen(patient, run), suspected)

    @abstractmethod
    def seen(self, patient: Patient, run: Run) -> Observation:
        """What it takes of a run, with its recurrence."""

    def recurs(self, patient: Patient, seen: Observation, suspected: Sequence[Finding]) -> Iterator[Finding]:
        """The finding, where it takes enough and has come often enough; an heir may ask the patient first."""
        del patient
        severity, recurrence = seen.level(self), seen.recurrence
        if severity is not None and recurrence is not None and recurrence.times >= self.limit("events"):
            yield seen.finding(
                self,
                say(self.sentence, cost=seen.words, often=recurrence.words, where=seen.where),
                name=self.measures.replace(" ", "_"),
                severity=severity,
                suspected=suspected,
                detail=PeriodDetail(period=recurrence.steps, engine_loop=seen.engine),
                numbers=(recurrence.measurement,),
            )
