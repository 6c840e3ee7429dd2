"""DATA010 loader-dead."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured, spot, watched
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import LogLine, Measurement
from gpudoctor.text import capitalised, count, duration


class LoaderDead(Check):
    """A loader worker died, or the training waits for a batch that never arrives.

    What it finds:
        A DataLoader worker that exited or was killed. A wait for data of over a minute when the run stopped or
        died.
    Why it hurts:
        A worker that dies ends the training, with a message that does not say why. A worker that hangs does not
        even end it.
    How it knows:
        From a recording: the exception of the training process and its message about the worker (exit code or
        signal). Kills for memory at that time, and heartbeats that show where it waits.
    False alarms:
        A slow first batch or a cold disk: a wait that ended is not a finding.
    Remedies:
        Run once with num_workers=0 to see the worker's own error; use less memory per worker; set a timeout.
    References:
        - https://github.com/pytorch/pytorch/issues/8976
        - https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """

    code = "DATA010"
    reads = frozenset({Reads.RECORDING, Reads.PROCESS, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold(
            "wait_seconds",
            60.0,
            "s",
            "convention: gpudoctor's own choice, no published figure is known",
            "A longer wait for one batch is a hang.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(window)
            return
        recording = patient.recorded_run
        told = of_run.death(recording)
        if told is not None and told.death is of_run.Death.WORKER:
            place = of_run.user_place(told)
            places = [spot(patient, place[0])] if place is not None else []
            first = told.message.strip().split(chr(10))[0][:200]
            yield self.finding(
                say("A loader worker died, and the training with it: {first}.", first=first),
                evidence=(*places, LogLine(origin="the training", text=f"{told.kind}: {told.message}"[:300])),
                breaks=say("the run died"),
                subject="worker",
                detail=Facts(hangs=False),
            )
            return
        yield from self._waits(patient, recording)

    def _live(self, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """In a watched process: a worker that went away, or a wait for one batch that does not end."""
        idle = of_run.workers_stand_still(window)
        for rank in window.ranks:
            waits = bool(rank.trail) and rank.trail[-1][1] == "data_wait"
            waited, lost = of_run.standing_for(rank), len(rank.lost_workers)
            surely = lost > 0 or waited >= self.limit("wait_seconds")
            if rank.alive and lost:
                pids = ", ".join(str(worker.pid) for worker in rank.lost_workers[:4])
                who = count(lost, "loader worker")
                message = say("{workers} of {title} died (pid {pids}).", workers=who, title=rank.title, pids=pids)
                shown = Measurement("workers_lost", lost, "{workers}", reproduce="dmesg | tail")
            elif rank.alive and waits and (idle or surely):
                message = say(
                    "{rank} has been waiting for one batch for {waited}{idle_workers}.",
                    rank=capitalised(rank.title),
                    waited=duration(waited),
                    idle_workers=_idle(rank),
                )
                how = of_run.by_hand(window)
                shown = Measurement("wait_seconds", round(waited, 1), "s", reproduce=how)
            else:
                continue
            yield self.finding(
                message,
                evidence=(*of_run.spans(rank.places[:1]), shown),
                confidence=Confidence.CONFIRMED if surely else Confidence.PROBABLE,
                severity=Severity.ERROR if surely else Severity.WARNING,
                breaks=say("the training fails or waits for ever") if surely else None,
                subject=rank.title,
                detail=Facts(hangs=not lost),
            )

    def _waits(self, patient: Patient, recording: "of_run.Recording") -> Iterator[Finding]:
        """A wait for data that had not ended when the recording did."""
        for item in of_run.standing(recording):
            if item.phase != "data_wait" or item.silent < self.limit("wait_seconds"):
                continue
            process = next(rank for rank in recording.ranks if rank.rank == item.rank)
            loader = of_run.training_loader(process)
            places = [place for place in (item.place, loader.place if loader else None) if place is not None]
            yield self.finding(
                say(
                    "Rank {rank} waits for its next batch for {silent} at step {step}, and the recording ends there.",
                    rank=item.rank,
                    silent=duration(item.silent),
                    step=item.step,
                ),
                evidence=(
                    *(spot(patient, place) for place in places),
                    measured("wait_seconds", item.silent, "s", recording),
                ),
                breaks=say("the training makes no progress"),
                subject=f"rank {item.rank}",
                detail=Facts(hangs=True),
            )
            return


def _idle(rank: "of_run.Rank") -> str:
    """How many of its workers do nothing, as a clause."""
    workers, asleep = len(rank.workers), sum(worker.cpu < 0.02 for worker in rank.workers)
    return say("; {asleep} of its {workers} workers do nothing", asleep=asleep, workers=workers) if workers else ""
