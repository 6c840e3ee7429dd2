"""Whose doing is the time that no hook claimed? The user's lines, told apart by what stands on them.

The hooks charge a call to its phase; what a line does before and after (formatting the values that it logs,
walking over the samples of a metric) is `other`, and one ailment all the same. A hook's site on the same
statement tells it without the source; where there is a source, its syntax tells more.
"""

import ast
import re
from collections.abc import Iterable, Mapping

from gpudoctor.analysis.run.line_costs import LineCost, LinePlace, Site, lines, sites
from gpudoctor.analysis.run.recorded_statements import calls_on, extent, inner_loop, statement_at, statements_on
from gpudoctor.analysis.run.rollouts import plays
from gpudoctor.analysis.run.statement_effects import COLLECTS, FLUSHES, LineOwner, calls_module, effect, makes_passes
from gpudoctor.analysis.run.steady_run import Run, script_at, source_of
from gpudoctor.analysis.run.steady_state import OTHER, Steady
from gpudoctor.analysis.run.trainer_engines import engine_of
from gpudoctor.analysis.source.metrics import is_metric
from gpudoctor.model.memo import remembered
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Script

SAMPLE_READS = 4.0
"""Reads a step from one line that make it a walk over the samples of a batch."""
_PHASES = (OTHER, "sync")
_STEP = frozenset({"forward", "backward", "optimizer"})
_BACKWARD = "backward"
_HISTOGRAMS = frozenset(
    {"add_histogram", "add_histogram_raw", "Histogram", "histogram", "histc", "bincount", "np_histogram",
     "report_histogram", "log_histogram_3d", "hist"}
)  # fmt: skip
_OPEN, _AGAIN = "open", 3
"""The site of a file that is opened for writing, and in how many steps it is so at least."""
_DRAWS = frozenset({"log_prob", "rsample", "entropy"})
"""Methods of distributions alone: what a policy or a latent variable is trained by."""
_READS = frozenset({"item", "tolist", "cpu", "numpy", "argmax"})
_SAMPLES = re.compile(r"range\(len\(|range\(\w+\.(shape\[0\]|size\(0\))|zip\(|enumerate\(|range\(\w*(batch|bs)\w*")
_PLAYS = re.compile(r"\benv\w*\.|\.(step|sample|act|select_action|reset)\(")
_LOSS = re.compile(r"loss|criter|objective|penalt\w{0,40}_term", re.IGNORECASE)


_OF_PHASE = {
    "logging": LineOwner.LOGGING, "checkpoint": LineOwner.SAVING, "profiler": LineOwner.PROFILING,
    "evaluation": LineOwner.EVALUATION, "collective": LineOwner.COMMUNICATION,
}  # fmt: skip
_PLAYED = (LineOwner.NOBODY, LineOwner.COMPUTE, LineOwner.METRICS)
"""Owners of lines that belong to a rollout where they stand in one."""
THE_JOB = (LineOwner.COMPUTE, LineOwner.PLAYING)
"""Those whose time is the training's own work, though no hook knows it."""
_MEASURED = frozenset({LineOwner.NOBODY, LineOwner.COMPUTE, LineOwner.ENGINE, LineOwner.COLLECTING})
"""Owners whose part of `sync` hooks measured: told as lines, too, it would count twice."""
_PARALLELISM = "parallelism."
"""What sites of collectives begin with that the parallelism itself makes (DeepSpeed, DDP, FSDP)."""


@frozen
class OwnedLine:
    """A line of the user's in the time that no hook claimed."""

    place: LinePlace
    owner: LineOwner
    share: float
    """Of step time (0..1): the phase's measured time, told apart by the samples that fell on its lines."""


def owned(patient: Patient, run: Run) -> tuple[OwnedLine, ...]:
    """The lines of `other` and `sync` on the rank that spends most there, dearest first.

    Reads of device tensors that hooks measured belong to `sync`; of that phase only the lines that something
    else answers for are told here.
    """
    key = ("owned lines", source_of(patient) is not None)
    dearest = max(run.states, key=lambda state: state.share(OTHER))
    return remembered(run.recording, key, lambda: _owned(patient, dearest))


def share_of(patient: Patient, run: Run, *owners: LineOwner) -> float:
    """Share of step time of the lines of these owners."""
    return sum(item.share for item in owned(patient, run) if item.owner in owners)


def lines_of(patient: Patient, run: Run, *owners: LineOwner) -> list[LinePlace]:
    """Their places, dearest first: those with at least a tenth of the owners' time."""
    found = [item for item in owned(patient, run) if item.owner in owners]
    total = sum(item.share for item in found)
    return [item.place for item in found if item.share >= 0.1 * total][:4]


def _owned(patient: Patient, state: Steady) -> tuple[OwnedLine, ...]:
    sampled = lines(state.process)
    loops = {(path, line) for path, line in _engine_lines(sampled) if not _makes_steps(patient, path, line)}
    started = engine_of(state.process)[1]
    if started is not None:
        loops.add((started.path, started.line))
    machinery = _machinery(sampled)
    hooked: dict[str, list[Site]] = {}
    for site in sites(state.process):
        hooked.setdefault(site.place.path, []).append(site)
    found: list[OwnedLine] = []
    for phase in _PHASES:
        inside = [item for item in sampled if item.phase == phase]
        total = sum(item.samples for item in inside)
        if not total:
            continue
        scale = state.share(phase) / total
        for item in inside:
            here = (item.place.path, item.place.line)
            owner = LineOwner.ENGINE if here in loops else _owner(patient, item, hooked, state)
            if owner in (LineOwner.NOBODY, LineOwner.LOGGING) and here in machinery:
                owner = LineOwner.COMPUTE
            share = item.samples * scale
            if owner in _PLAYED and plays(patient, item.place.path, item.place.line):
                owner = LineOwner.PLAYING
            if share > 0 and (phase == OTHER or owner not in _MEASURED):
                found.append(OwnedLine(place=item.place, owner=owner, share=share))
    return tuple(sorted(found, key=lambda item: -item.share))


def _engine_lines(sampled: Iterable[LineCost]) -> set[tuple[str, int]]:
    """Lines under which whole steps are made: forward, backward and optimizer all fall on one."""
    seen: dict[tuple[str, int], set[str]] = {}
    for item in sampled:
        seen.setdefault((item.place.path, item.place.line), set()).add(item.phase)
    return {place for place, phases in seen.items() if phases >= _STEP}


def _makes_steps(patient: Patient, path: str, line: int) -> bool:
    """Whether a step is written out on a line, and not called from it: `loss.backward(); optimizer.step()`."""
    script = script_at(patient, path)
    return script is not None and any(
        call.method == _BACKWARD for whole in statements_on(script, line) for call in calls_on(script, whole)
    )


def _machinery(sampled: Iterable[LineCost]) -> set[tuple[str, int]]:
    """Lines that spend most of their time in a pass or in the optimizer: the rest is how these are called."""
    inside: dict[tuple[str, int], float] = {}
    for item in sampled:
        if item.phase in _STEP or item.phase == OTHER:
            here = (item.place.path, item.place.line)
            inside[here] = inside.get(here, 0.0) + (-item.samples if item.phase == OTHER else item.samples)
    return {here for here, more in inside.items() if more > 0}


def _owner(patient: Patient, item: LineCost, hooked: Mapping[str, list[Site]], state: Steady) -> LineOwner:
    script = script_at(patient, item.place.path)
    whole = statement_at(script, item.place.line) if script is not None else None
    first, last = extent(whole) if whole is not None else (item.place.line, item.place.line)
    here = [site for site in hooked.get(item.place.path, ()) if first <= site.place.line <= last]
    by_hook = _by_hook(here, state)
    trains = _makes_steps(patient, item.place.path, item.place.line)
    walks = script is None or whole is None or _walks(script, whole)
    if by_hook is LineOwner.METRICS and (trains or not walks):
        by_hook = None
    writes = LineOwner.LOGGING if any(map(opens_files, here)) else LineOwner.NOBODY
    if by_hook is not None or script is None:
        return by_hook or writes
    if writes is LineOwner.NOBODY and plays(patient, item.place.path, item.place.line):
        return LineOwner.PLAYING
    owners = [_by_syntax(script, part) for part in statements_on(script, item.place.line)]
    found = next((owner for owner in owners if owner is not LineOwner.NOBODY), LineOwner.NOBODY)
    if found is LineOwner.NOBODY and not trains:
        return writes
    return (
        LineOwner.COMPUTE if trains and found is LineOwner.METRICS else found
    )  # `loss.backward(); total += loss.item()`


def _by_hook(here: Iterable[Site], state: Steady) -> LineOwner | None:
    """Who answers by the hooks' sites on the statement; many reads a step are a metric's."""
    again = [site for site in here if site.steps >= _AGAIN or site.phase != "logging"]
    owners = [_OF_PHASE[site.phase] for site in again if site.phase in _OF_PHASE and not by_parallelism(site)]
    if owners:
        return owners[0]
    every = state.steps + state.warm_up_steps
    if any(site.phase == "sync" and site.calls >= SAMPLE_READS * max(1, every) for site in here):
        return LineOwner.METRICS
    if any(site.phase == "sync" and COLLECTS.match(site.what.rpartition(".")[2]) for site in here):
        return LineOwner.COLLECTING
    return None


def _by_syntax(script: Script, whole: ast.stmt) -> LineOwner:
    calls = calls_on(script, whole)
    methods = {call.method for call in calls}
    if methods & _HISTOGRAMS:
        return LineOwner.HISTOGRAMS
    if any(map(is_metric, calls)) or (methods & _READS and over_samples(script, whole)):
        return LineOwner.METRICS
    done = effect(calls)
    if done is not None:
        return done
    return LineOwner.COMPUTE if _computes(script, whole, calls) else LineOwner.NOBODY


def _computes(script: Script, whole: ast.stmt, calls: Iterable[Call]) -> bool:
    """Whether a statement works on the loss, makes a pass, or calls torch.

    In a Python loop of its own function's only where the passes themselves are made in that loop, one after the
    other (inner steps of meta-learning, a rollout, a decoder), and not one for each sample of a batch.
    """
    loop = inner_loop(script, whole)
    if loop is not None:
        return makes_passes(script, loop) and not over_samples(script, whole)
    if any(call.method in _DRAWS for call in calls):
        return True
    if any(call.method == _BACKWARD or calls_module(call) for call in calls):
        return True
    if any(call.name.startswith(("torch.nn.functional.", "torch.autograd.")) or _LOSS.search(call.name)
           for call in calls):  # fmt: skip
        return True
    targets = [ast.unparse(target) for target in getattr(whole, "targets", ())]
    return any(_LOSS.search(target) for target in targets) and any(
        call.name.startswith("torch.") or call.receiver_type == "torch.Tensor" for call in calls
    )


def over_samples(script: Script, whole: ast.stmt) -> bool:
    """Whether a statement stands in, or is, a Python loop over the samples of a batch."""
    loop = whole if isinstance(whole, ast.For) else inner_loop(script, whole)
    return isinstance(loop, ast.For) and bool(_SAMPLES.search(ast.unparse(loop.iter)))


def _walks(script: Script, whole: ast.stmt) -> bool:
    """Whether a statement that reads many values walks over a batch; one that plays (`env.step`) does not."""
    loop = whole if isinstance(whole, ast.For) else inner_loop(script, whole)
    text = ast.unparse(loop if loop is not None else whole)
    if _PLAYS.search(text):
        return False
    return isinstance(loop, ast.For) or any(isinstance(node, ast.comprehension) for node in ast.walk(whole))


def by_parallelism(site: Site) -> bool:
    """Whether a collective is the parallelism's own work, which no line of the program can leave out."""
    return site.what.startswith(_PARALLELISM)


def watches(what: str) -> bool:
    """Whether a site is a watcher of all weights."""
    return what.endswith(".watch") or what.rpartition(".")[2] in _HISTOGRAMS


def collects(what: str) -> bool:
    """Whether a site empties a cache or collects garbage."""
    return bool(COLLECTS.match(what.rpartition(".")[2]))


def opens_files(site: Site) -> bool:
    """Whether a site opens files for writing again and again: it writes, whatever its call is named."""
    return site.what == _OPEN and site.steps >= _AGAIN


def flushes(what: str) -> bool:
    """Whether a site is a flush: it waits for the disk or the terminal, and writes nothing itself."""
    return bool(FLUSHES.match(what.rpartition(".")[2]))
