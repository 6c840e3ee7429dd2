"""How findings tell the death that a recording shows: who, when, where, and with which exit code."""

from typing import NamedTuple

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured, spot
from gpudoctor.lang import say
from gpudoctor.model import LogLine, Measurement, Patient, SourceSpan


class ToldDeath(NamedTuple):
    """A death of one of the kinds that were asked for."""

    recording: "of_run.Recording"
    told: "of_run.DeathMessage"
    place: SourceSpan | None
    """The user's innermost line."""

    @property
    def who(self) -> str:
        """`rank 3` where there are several, else `the training`."""
        if self.told.process is None or len(self.recording.ranks) < 2:
            return say("the training")
        return say("rank {process_rank}", process_rank=self.told.process.rank)

    @property
    def when(self) -> str:
        """` at step 7`; "" before the first."""
        return say(" at step {step}", step=self.told.step) if self.told.step else ""

    @property
    def where(self) -> str:
        """` (train.py:9)`; "" where no line is known."""
        return say(" ({path}:{line})", path=self.place.path, line=self.place.line) if self.place is not None else ""

    @property
    def first(self) -> str:
        """The first line of the message."""
        return self.told.message.strip().split(chr(10))[0][:200]

    @property
    def spans(self) -> list[SourceSpan]:
        """The place as evidence."""
        return [self.place] if self.place is not None else []

    def quoted(self, origin: str = "the training") -> LogLine:
        """The exception as evidence."""
        return LogLine(origin=origin, text=f"{self.told.kind}: {self.told.message}"[:400])

    def exit_code(self) -> Measurement:
        """The command's exit code as evidence; -1 where nobody saw it."""
        end = self.recording.end
        return measured("exit_code", end.exit_code if end and end.exit_code is not None else -1, "1", self.recording)


def told_death(patient: Patient, *kinds: str) -> ToldDeath | None:
    """The death of a recorded run if it is of a kind with one of these names; `Unavailable` without a recording."""
    recording = patient.recorded_run
    told = of_run.death(recording)
    if told is None or told.death.name not in kinds:
        return None
    place = of_run.user_place(told)
    return ToldDeath(recording, told, spot(patient, place[0]) if place is not None else None)
