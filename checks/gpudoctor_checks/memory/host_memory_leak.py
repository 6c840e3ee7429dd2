"""MEM002 host-memory-leak."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, demanded, measured, spot, spots, watched
from gpudoctor.analysis.run.training.kept import kept
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Cost, Finding, Patient, Reads, Resource, Severity, Trait
from gpudoctor.model.proof import LeakDetail, LeakKind
from gpudoctor.model.unavailable import Unavailable
from gpudoctor_checks.thresholds import DAY, GROWN_BYTES

_LITTLE = 256 * 2.0**20
"""Bytes: measured, a training beside its workers on one CPU rose by 240 MiB and fell again."""
_TRAINING = say("The memory of the training")
_WHOSE = {
    LeakKind.WORKERS: say("The memory of the training and its workers"),
    LeakKind.PROFILER: say("The memory of the training, with a profiler on,"),
}


class HostMemoryLeak(Check):
    """The host's memory grows with every step.

    What it finds:
        Resident memory of the training process, or of it and its workers, that rises with the steps. The
        finding gives the rate, the time until the machine is full, the kind, and the lines.
    Why it hurts:
        The kernel kills the job when the machine or its control group is full, without an exception.
    How it knows:
        From a recording: Theil-Sen slope and Mann-Kendall test (p under 0.001), after the first steps. The
        second half must still grow, and what is given back does not count. Of a run that saw no epoch end, it
        does not say when the machine is full. gpudoctor separates the kinds:
        - objects that grew between two steps (graphs, lists)
        - growth in the workers alone (Python objects shared by fork: each reference writes to their page)
        - a profiler that keeps its events
        - predictions of a whole evaluation, and files that each save makes larger
    False alarms:
        Lazily loaded libraries, caches and memory-mapped files fill up and stop growing. Growth of less than 16
        MiB is not reported. Growth that no object explains is a note, and so are less than 256 MiB of workers.
        An allocator may keep memory that its threads freed. Under a profiler it is an effect of OBS001.
    Remedies:
        By kind: detach or limit what you keep. Use arrays instead of lists of objects in the data set. Give the
        profiler a schedule that ends.
    References:
        - https://github.com/pytorch/pytorch/issues/13246
    """

    code = "MEM002"
    judges = "memory growth"
    traits = frozenset({Trait.HOST_MEMORY_GROWS})
    reads = frozenset({Reads.RECORDING, Reads.PROCESS})
    thresholds = (GROWN_BYTES, DAY)

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(window)
            return
        if staying := list(self._kept(patient)):
            yield from staying
            return
        run = demanded(patient, 50)
        tree = of_run.tree_growth(run.recording)
        if tree is None and not any(of_run.memory_readings(state.process, "rss") for state in run.states):
            raise Unavailable(say("the recording has no host memory"))
        found = [(of_run.growth(state.process, "rss"), state.process) for state in run.states]
        own, process = max(found, key=lambda item: item[0].per_step if item[0] else 0.0)
        if own is not None and own.bytes >= self.limit("grown"):
            yield self._found(patient, run, process, own, self._kind(run, process))
        elif tree is not None and run.recording.workers and tree.bytes >= self.limit("grown"):
            yield self._found(patient, run, process, tree, LeakKind.WORKERS)

    def _kept(self, patient: Patient) -> Iterator[Finding]:
        """What an evaluation or the program's own files keep, whatever the process does."""
        for kind, text, amount, place in kept(patient.recording):
            yield self.finding(
                text,
                evidence=(*spots(patient, place), measured("kept", float(amount), "B", patient.recording)),
                severity=Severity.WARNING,
                cost=Cost(bytes=int(amount)),
                subject=kind.value,
                detail=LeakDetail(kind=kind),
            )

    def _live(self, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """In a watched job: resident bytes of a rank and its workers."""
        of_run.long_enough(window)
        found = [one for rank in window.ranks if (one := of_run.growing(rank, rank.tree_rss))]
        worst = max(found, key=lambda one: one.rate, default=None)
        if worst is None or worst.trend.growth < self.limit("grown"):
            return
        host = window.host
        room = host.memory_total - host.memory.last if host.memory.known() and host.memory_total else None
        total = worst.now + room if room is not None else None
        kind = LeakKind.WORKERS if worst.rank.workers else LeakKind.OBJECTS
        breaks = say("the machine runs out of memory")
        yield of_run.leak(self, worst, _WHOSE.get(kind, _TRAINING), total, breaks, Resource.HOST_MEMORY)

    def _kind(self, run: Run, process: "of_run.Process") -> LeakKind:
        """What kind of leak it is, as far as the recording tells."""
        state = next(item for item in run.states if item.process is process)
        on = of_run.coverage(state, "profil")
        if on is not None and on.share > 0.5:
            return LeakKind.PROFILER
        thing = next(iter(of_run.growing_things(process, "cpu")), None)
        if thing is None:
            return LeakKind.OBJECTS
        if thing.is_plain:
            return LeakKind.TENSORS
        if thing.name and "tensors" not in thing.what:
            return LeakKind.CONTAINER
        return LeakKind.GRAPHS if thing.has_graph else LeakKind.OBJECTS

    def _found(
        self, patient: Patient, run: Run, process: "of_run.Process", grown: "of_run.MemoryGrowth", kind: LeakKind
    ) -> Finding:
        limit = of_run.memory_limit(run.recording)
        things = of_run.growing_things(process, "cpu") if kind is not LeakKind.WORKERS else ()
        little = kind is LeakKind.WORKERS and grown.bytes < _LITTLE
        vague = not things and (kind is LeakKind.OBJECTS or little)
        within = limit is not None and grown.seconds_to(limit) <= self.limit("day")
        soon = within and not vague and kind is not LeakKind.PROFILER
        what = say("; what grew: {thing}", thing=things[0].words) if things else ""
        if vague:
            what = say("; no growing Python objects were seen. It may be the allocator: record a longer run")
        full = grown.projection(limit) if limit is not None else ""
        words = _WHOSE.get(kind, _TRAINING)
        who = say(" (rank {process_rank})", process_rank=process.rank) if len(run.states) > 1 else ""
        return self.finding(
            grown.sentence(words, who, full, what),
            evidence=(
                *(spot(patient, item.place) for item in things[:3] if item.place is not None),
                run.measured("bytes_per_step", grown.per_step, "B"),
                run.measured("memory_at_end", grown.last, "B"),
            ),
            confidence=Confidence.PROBABLE if vague else Confidence.CONFIRMED,
            severity=Severity.NOTE if vague else Severity.ERROR if soon else Severity.WARNING,
            cost=Cost(breaks=say("the machine runs out of memory") if soon else None, bytes=int(grown.bytes)),
            subject=f"rank {process.rank}",
            scarce=Resource.HOST_MEMORY,
            effect_of="OBS001" if kind is LeakKind.PROFILER else None,
            detail=LeakDetail(kind=kind, target=things[0].name if things else ""),
        )
