"""One watched training process: what is known of it between two ticks."""

import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from gpudoctor.model.redaction import mask_arguments
from gpudoctor.model.signs.process import NAN, LiveSteps, LostWorker, Rank, Worker
from gpudoctor.vitals.host.meter import SHORTEST
from gpudoctor.vitals.process import procfs
from gpudoctor.vitals.process.classify_stack import SourceLines
from gpudoctor.vitals.process.process_tree import Member, variables, workers_of
from gpudoctor.vitals.process.procfs import ProcessUsage
from gpudoctor.vitals.process.stack_sampler import SampledProcess
from gpudoctor.vitals.process.time_series import DownsampledSeries
from gpudoctor.vitals.recording.live_files import STALE, live_ranks

# The live files of a rank that `gpudoctor run` records: exact step time and phases, where they are there.

RECORDING = "GPUDOCTOR_RECORDING"
"""The variable that carries the recording's folder to the probe."""


def recording_folder(environment: dict[str, str]) -> Path | None:
    """The folder that the probe in a process writes to; None where it was not started by `gpudoctor run`."""
    name = environment.get(RECORDING, "")
    return Path(name) if name else None


def live_steps(folder: Path | None, pid: int) -> LiveSteps | None:
    """The newest numbers of a rank; None where there are none or they are old."""
    if folder is None:
        return None
    now = next((item for item in live_ranks(folder, str(pid)) if item.age <= STALE), None)
    if now is None:
        return None
    phases = dict(now.phases)
    if phases:
        phases.setdefault("other", max(0.0, 1.0 - sum(phases.values())))
    return LiveSteps(step=now.step, seconds=now.seconds, phases=phases, loss=now.loss)


FAMILY_EVERY = 3.0
"""Seconds between two looks at who the workers are."""
_SETTLED = 5.0
"""Seconds that a worker's siblings must outlive it: at the end of an epoch all go within moments."""
_LOOKS = 120
_AWAKE = 6e-4
"""Share of a CPU above which a thread works. One that waits with a limit of half a second uses 1e-4 to 3e-4
(up to 0.12 ms for each time it wakes up); a step of a millisecond every second uses 1e-3."""
_DEVICE_EVERY = 20.0


class _Worker:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.before: ProcessUsage | None = None
        self.cpu = NAN
        self.looks: deque[bool] = deque(maxlen=_LOOKS)

    def take(self, item: ProcessUsage, seconds: float) -> Worker:
        if self.before is None:
            self.before = item
        elif seconds >= SHORTEST:
            self.cpu = max(0.0, item.cpu - self.before.cpu) / seconds
            self.before = item
        self.looks.append(item.state == "D")
        channel = procfs.wait_channel(self.pid) if item.state == "D" else ""
        share = sum(self.looks) / len(self.looks)
        return Worker(
            pid=self.pid, state=item.state, cpu=self.cpu, rss=item.rss, wait_channel=channel, disk_share=share
        )


class WatchedRank:
    """One rank; `target` is what the sampler knows of it."""

    def __init__(self, member: Member, length: float) -> None:
        self.member = member
        self.environment = variables(member.pid)
        item = procfs.usage(member.pid)
        self._started = procfs.started(item) if item else 0.0
        self._cwd = procfs.working_folder(member.pid)
        self._user = procfs.user(member.pid)
        self._python = procfs.executable(member.pid)
        lines = SourceLines(self._started, _root_of(member.pid), self._cwd)
        self.target = SampledProcess(member.pid, lines, uses_gpu(member.pid), length)
        self.alive = True
        self._before: ProcessUsage | None = None
        self._at = -1.0
        self._cpu = NAN
        self._io: tuple[float, int] | None = None
        self._rate = NAN
        self._workers: dict[int, _Worker] = {}
        self._gone: dict[int, float] = {}
        self._lost: list[LostWorker] = []
        self._family_at = -FAMILY_EVERY
        self._device_at = 0.0
        self._memory, self._device = DownsampledSeries(), DownsampledSeries()
        self._step, self._stepped = -1, 0.0
        self._work: tuple[float, procfs.ThreadWork] | None = None
        self._worked = 0.0
        self._folder: Path | None = recording_folder(self.environment)

    @property
    def pids(self) -> frozenset[int]:
        """It and its workers."""
        return frozenset({self.member.pid, *self._workers})

    def tick(self, t: float, ranks: Iterable[int], device_memory: int | None, gpus: tuple[int, ...]) -> Rank:
        """The rank now. The sampler's lock must be held by the caller."""
        item = procfs.usage(self.member.pid)
        if item is None or item.state == "Z" or item.ticks != self.member.ticks:  # another process has its pid
            self.alive, item = False, None
        workers: tuple[Worker, ...] = ()
        if item is not None:
            self._usage(t, item)
            self._look_for_work(t)
            if t - self._family_at >= FAMILY_EVERY:
                self._family(t, ranks)
            workers = tuple(self._look_at_workers(t))
            self._memory.add(t, item.rss + sum(worker.rss for worker in workers))
            self._device.add(t, device_memory)
            if t - self._at >= SHORTEST:
                self._at = t
        return self._snapshot(t, item, workers, gpus)

    def _usage(self, t: float, item: ProcessUsage) -> None:
        if self._before is None:
            self._before = item
        elif t - self._at >= SHORTEST:
            self._cpu = max(0.0, item.cpu - self._before.cpu) / (t - self._at)
            self._before = item
        if not self.target.device and t - self._device_at > _DEVICE_EVERY:
            self._device_at, self.target.device = t, uses_gpu(self.member.pid)

    def _look_for_work(self, t: float) -> None:
        """Whether the main thread has done something since the last look, however shortly it was awake."""
        now = procfs.main_thread(self.member.pid)
        if now is None:
            self._work = None
            return
        if self._work is None:
            self._work, self._worked = (t, now), t
            return
        since, before = self._work
        if t - since < SHORTEST:
            return
        if now.cpu - before.cpu > _AWAKE * max(1.0, t - since) or now.bytes != before.bytes:
            self._worked = t
        self._work = (t, now)

    def _family(self, t: float, ranks: Iterable[int]) -> None:
        """Who the workers are, what they read, how many files are open: not every second."""
        self._family_at = t
        found = workers_of(self.member.pid, ranks)
        for pid in set(self._workers) - set(found):
            self._gone.setdefault(pid, t)
        self._workers = {pid: self._workers.get(pid) or _Worker(pid) for pid in found}
        for pid, when in list(self._gone.items()):
            if not found or pid in found:
                del self._gone[pid]  # they have all gone: the end of an epoch
            elif t - when >= _SETTLED:
                self._lost.append(LostWorker(pid=pid, t=when))
                del self._gone[pid]
        self.target.workers = tuple(found)
        self._disk(t)

    def _disk(self, t: float) -> None:
        counts = [count for pid in self.pids if (count := procfs.disk_bytes(pid)) is not None]
        if not counts:
            return
        if self._io is not None and t > self._io[0]:
            # A worker that has gone takes its counters along.
            self._rate = max(0, sum(counts) - self._io[1]) / (t - self._io[0])
        self._io = (t, sum(counts))

    def _look_at_workers(self, t: float) -> Iterable[Worker]:
        for worker in self._workers.values():
            item = procfs.usage(worker.pid)
            if item is not None and item.state != "Z":
                yield worker.take(item, t - self._at)

    def _snapshot(
        self, t: float, item: ProcessUsage | None, workers: tuple[Worker, ...], gpus: tuple[int, ...]
    ) -> Rank:
        member, ring, others = self.member, self.target.ring, self.target.worker_ring
        ring.forget(t)
        others.forget(t)
        blind = self.target.blind
        steps = live_steps(self._folder, procfs.innermost_pid(member.pid) or member.pid)
        if steps is not None and steps.step > self._step:
            self._step, self._stepped = steps.step, t
        return Rank(
            rank=member.rank,
            pid=member.pid,
            command=mask_arguments(member.command),
            user=self._user,
            cwd=self._cwd,
            started=self._started,
            python=self._python,
            state=item.state if item else "X",
            wait_channel=procfs.wait_channel(member.pid) if item and item.state == "D" else "",
            alive=item is not None,
            cpu=self._cpu,
            rss=item.rss if item else 0,
            tree_rss=self._memory.series(),
            device_memory=self._device.series(),
            gpus=gpus,
            read_rate=self._rate,
            samples=len(ring.looks),
            lost=len(ring.failures),
            seconds=ring.seconds,
            places=ring.places(),
            worker_places=others.places(),
            stack=ring.stack,
            still=ring.still,
            quiet=t - self._worked if self._work is not None else NAN,
            stepless=t - self._stepped if steps is not None else NAN,
            trail=ring.trail(),
            workers=workers,
            lost_workers=tuple(self._lost),
            steps=steps,
            blind=blind.error.value if blind and blind.error else "",
        )


def uses_gpu(pid: int) -> bool:
    """Whether the process has mapped a GPU: NVIDIA's devices, or AMD's for computation."""
    return bool(procfs.maps(pid, "/dev/nvidia", "/dev/kfd"))


def _root_of(pid: int) -> str:
    """Where the process's own root folder is seen from here; "" when it is ours too."""
    try:
        if os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"):
            return f"/proc/{pid}/root"
    except OSError:
        pass
    return ""
