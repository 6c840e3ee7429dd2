"""Watches a job: one immutable window a tick, from collectors of which each may fail alone."""

import time
from collections.abc import Sequence
from threading import Lock

from gpudoctor.lang import say
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.signs.process import Gap, HostWindow, ProcessWindow, Rank
from gpudoctor.vitals.process import procfs
from gpudoctor.vitals.process.attach import Attachment, attach, blind_gap
from gpudoctor.vitals.process.dump import find_pyspy
from gpudoctor.vitals.process.gpu_histories import GpuFeed
from gpudoctor.vitals.process.process_tree import ranks_under
from gpudoctor.vitals.process.ranks import WatchedRank
from gpudoctor.vitals.process.stack_sampler import StackSampler
from gpudoctor.vitals.process.time_series import HostHistory

WINDOW = 120.0
"""Seconds that a window covers, unless told otherwise."""
_REVIVAL = 5.0
"""Seconds between two looks for ranks that a launcher has started anew."""
_EVENTS = 200


class Watcher:
    """Looks at the named processes until `close`. Raises `IncompleteError` when it cannot begin."""

    def __init__(self, pids: Sequence[int], *, length: float = WINDOW) -> None:
        self._pyspy = find_pyspy()
        self._zero = time.monotonic()
        self._length = length
        self._gpus = GpuFeed(0.0)  # first: the driver takes its time
        try:
            attached = attach(pids, self._pyspy)
        except BaseException:
            self._gpus.close()
            raise
        self._roots, self._notes = attached.roots, list(attached.notes)
        self._ranks = [WatchedRank(member, length) for member in attached.ranks]
        self._sampler = StackSampler(self._pyspy, self.clock)
        self._sampler.start([rank.target for rank in self._ranks])
        self._host: HostHistory | None = None
        self._host_error = ""
        self._revived_at = 0.0
        self._ended = ""
        self._lock = Lock()
        self._survey: GpuSurvey | None = None

    def clock(self) -> float:
        """Seconds since the watch began."""
        return time.monotonic() - self._zero

    def pause(self, on: bool) -> None:
        """Stop looking at stacks, or go on."""
        self._sampler.pause(on)

    def survey(self) -> GpuSurvey | None:
        """The GPUs as checks of the hardware read them, at the last tick."""
        return self._survey

    def tick(self) -> ProcessWindow:
        """The job now."""
        with self._lock:
            return self._tick()

    def close(self) -> None:
        """Stop every collector. The target goes on as if nothing had been."""
        self._sampler.close()
        self._gpus.close()

    def _tick(self) -> ProcessWindow:
        t = self.clock()
        self._gpus.tick(t)
        ours = frozenset().union(*(rank.pids for rank in self._ranks))
        windows = self._gpus.windows()
        self._survey = self._gpus.survey(ours, t)
        self._revive(t)
        alive = [rank.member.pid for rank in self._ranks if rank.alive]
        ranks = []
        for rank in self._ranks:
            held = [(gpu.index, user.memory) for gpu in windows for user in gpu.users if user.pid in rank.pids]
            known = [memory for _, memory in held if memory is not None]
            indices = tuple(sorted({index for index, _ in held}))
            with self._sampler.lock:
                ranks.append(rank.tick(t, alive, sum(known) if known else None, indices))
        self._mark_end(ranks)
        return ProcessWindow(
            t=t,
            wall=time.time(),
            length=self._length,
            ranks=tuple(ranks),
            gpus=windows,
            host=self._look_at_host(t),
            events=tuple(self._gpus.events[-_EVENTS:]),
            gaps=tuple(self._gaps(t)),
            notes=tuple(self._notes),
            ended=self._ended,
        )

    def _look_at_host(self, t: float) -> HostWindow:
        try:
            if self._host is None:
                self._host = HostHistory(self._ranks[0].member.pid)
            return self._host.tick(t)
        except Exception as error:  # noqa: BLE001  # a collector that fails costs its panel and nothing else
            self._host_error = f"{type(error).__name__}: {error}"
            return HostWindow()

    def _revive(self, t: float) -> None:
        """Ranks that a launcher has started anew join; those that are gone stay with their last state."""
        if t - self._revived_at < _REVIVAL or all(rank.alive for rank in self._ranks):
            return
        self._revived_at = t
        known = {rank.member.pid for rank in self._ranks}
        for root in self._roots:
            if root in known or procfs.usage(root) is None:
                continue
            for member in ranks_under(root, self._pyspy):
                if member.pid not in known and member.torch:
                    self._ranks.append(WatchedRank(member, self._length))
                    self._notes.append(say("pid {pid} has joined", pid=member.pid))
                    self._sampler.hurry()
        self._sampler.start([rank.target for rank in self._ranks if rank.alive])

    def _mark_end(self, ranks: Sequence[Rank]) -> None:
        if self._ended or any(rank.alive for rank in ranks):
            return
        what = (
            say("the process has ended") if len(ranks) == 1 else say("all {ranks} ranks have ended", ranks=len(ranks))
        )
        self._ended = say("{what} ({time})", what=what, time=time.strftime("%H:%M:%S"))

    def _gaps(self, t: float) -> list[Gap]:
        gaps = [
            blind_gap(rank.member.pid, rank.target.blind)
            for rank in self._ranks
            if rank.alive and rank.target.blind is not None
        ]
        gaps += self._gpus.gaps(t, used=any(rank.target.device for rank in self._ranks if rank.alive))
        if self._host_error:
            gaps.append(
                Gap(panel="host", reason=say("the machine cannot be read ({host_error})", host_error=self._host_error))
            )
        return list(dict.fromkeys(gaps))


__all__ = ["WINDOW", "Attachment", "Watcher"]
