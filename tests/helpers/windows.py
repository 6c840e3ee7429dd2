"""Synthetic windows of a watched job, and ticks of them.

    window = make_window([make_rank(looks={"data_wait/loader-wait": 60, "forward": 40})])
    tick = make_tick(window, findings=[...])

`looks` maps a phase, with or without `/kind` and `@file.py:line function`, to its number of samples; they are spread
evenly over the window.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.model import PatientKind, Reads, Report
from gpudoctor.model.signs.process import (
    Frame,
    Gap,
    GpuUser,
    GpuWindow,
    HostWindow,
    Place,
    ProcessWindow,
    Rank,
    Series,
    Worker,
)
from gpudoctor.model.watch import Tick
from gpudoctor.testing import make_host, make_patient

GIB = 1 << 30
T0 = 100.0
WALL = 1_795_000_000.0
_LOOK = re.compile(r"(?P<phase>\w+)(/(?P<kind>[\w-]+))?(@(?P<file>[\w./-]+):(?P<line>\d+)( (?P<function>\w+))?)?$")
_KINDS = {"data_wait": "loader-wait", "sync": "read", "logging": "tracker", "checkpoint": "save",
          "evaluation": "evaluate", "profiler": "profile", "other": "user"}  # fmt: skip


def series(values: Iterable[float], step: float = 1.0, end: float = T0) -> Series:
    """Values a step apart, the last one now."""
    known = [float(value) for value in values]
    return Series(t=tuple(end - step * (len(known) - 1 - i) for i in range(len(known))), values=tuple(known))


def make_place(look: str, count: int, episodes: int = 5, text: str = "") -> Place:
    """A place from its short form."""
    match = _LOOK.match(look)
    assert match, look
    phase = match["phase"]
    return Place(
        phase=phase,
        kind=match["kind"] or _KINDS.get(phase, phase),
        via="" if match["kind"] in ("read", "print", "user") else f"library.{phase}",
        path=f"/job/{match['file']}" if match["file"] else "/job/train.py",
        line=int(match["line"] or 20),
        function=match["function"] or "main",
        text=text,
        count=count,
        episodes=episodes,
    )


def make_rank(
    rank: int | None = None,
    pid: int = 4711,
    *,
    looks: Mapping[str, int] | None = None,
    texts: Mapping[str, str] | None = None,
    lost: int = 0,
    seconds: float = 100.0,
    worker_looks: Mapping[str, int] | None = None,
    **changes: object,
) -> Rank:
    """A rank with a healthy loop, unless told otherwise."""
    counts = dict(looks if looks is not None else {"forward": 35, "backward": 50, "optimizer": 12, "data_wait": 3})
    places = [make_place(look, count, text=(texts or {}).get(look, "")) for look, count in counts.items() if count]
    places.sort(key=lambda place: -place.count)
    made = Rank(
        rank=rank,
        pid=pid,
        command=("/env/bin/python", "train.py", "--lr", "3e-4"),
        user="me",
        cwd="/job",
        started=WALL - 8040.0,
        python="/env/bin/python",
        state="S",
        cpu=1.0,
        rss=3 * GIB,
        tree_rss=series([3.0 * GIB] * 60),
        samples=sum(counts.values()),
        lost=lost,
        seconds=seconds,
        places=tuple(places),
        worker_places=tuple(make_place(look, count) for look, count in (worker_looks or {}).items()),
        stack=(
            Frame(name="<module>", path="/job/train.py", line=30),
            Frame(name="main", path="/job/train.py", line=20),
        ),
        trail=_trail(counts, seconds),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def _trail(counts: Mapping[str, int], seconds: float) -> tuple[tuple[float, str], ...]:
    """Samples of each phase, mixed as evenly as can be."""
    total = sum(counts.values())
    marks = sorted(
        ((place + 0.5) / count, _LOOK.match(look)["phase"])  # type: ignore[index]
        for look, count in counts.items()
        for place in range(count)
    )
    return tuple((T0 - seconds + seconds * (i + 1) / total, phase) for i, (_, phase) in enumerate(marks))


def make_worker(pid: int, **changes: object) -> Worker:
    """A loader worker at rest."""
    return replace(Worker(pid=pid, state="S", cpu=0.05, rss=GIB // 2), **changes)  # type: ignore[arg-type]


def make_gpu_window(index: int = 0, busy: float = 0.95, **changes: object) -> GpuWindow:
    """An H100 at work."""
    made = GpuWindow(
        index=index,
        name="NVIDIA H100 80GB HBM3",
        memory_total=80 * GIB,
        power_limit=700.0,
        busy=series([busy] * 60),
        memory=series([40.0 * GIB] * 60),
        power=series([150.0 + 500.0 * busy] * 60),
        temperature=series([55.0] * 60),
        users=(GpuUser(pid=4711 + index, memory=39 * GIB),),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def make_host_window(**changes: object) -> HostWindow:
    """A node of 32 cores with little to do."""
    made = HostWindow(
        cpus=32.0,
        machine_cpus=32.0,
        cpu=series([3.0] * 60),
        io_wait=series([0.01] * 60),
        memory_total=256 * GIB,
        memory=series([50.0 * GIB] * 60),
        disk_read=series([1.0e6] * 60),
        disk_write=series([1.0e5] * 60),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def make_window(ranks: Iterable[Rank] = (), gpus: Iterable[GpuWindow] = (), **changes: object) -> ProcessWindow:
    """A job of these ranks, or of one healthy rank."""
    cards = tuple(gpus)
    found = tuple(ranks) or (make_rank(gpus=tuple(card.index for card in cards)),)
    gaps = () if cards else (Gap(panel="gpu", reason="no NVIDIA driver library on this machine"),)
    made = ProcessWindow(t=T0, wall=WALL, length=120.0, ranks=found, gpus=cards, host=make_host_window(), gaps=gaps)
    return replace(made, **changes)  # type: ignore[arg-type]


def report_of(window: ProcessWindow) -> Report:
    """The examination of a window by every check that reads a live process."""
    registry = load_registry()
    selection = make_selection(registry, [], [])
    live = frozenset(code for code, check in registry.checks.items() if Reads.PROCESS in check.reads)
    patient = make_patient(process=window, host=make_host(), environment={}, kind=PatientKind.PROCESS)
    patient.title = "train.py (pid 4711)"
    return examine(patient, Request(registry=registry, selection=replace(selection, selected=live)))


def make_tick(window: ProcessWindow | None = None, report: Report | None = None) -> Tick:
    """A tick of a window with its examination."""
    shown = window or make_window()
    return Tick(window=shown, report=report or report_of(shown))
