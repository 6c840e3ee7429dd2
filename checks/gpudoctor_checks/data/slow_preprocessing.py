"""DATA002 slow-preprocessing."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpudoctor.analysis.live.stack_shares import INLINE, hidden, most_workers, waiting_live, watched, where
from gpudoctor.analysis.live.stack_shares import spans as spans_of
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.cost_attribution import at, seen_in_run
from gpudoctor.analysis.run.data_waits import BatchWait, LoaderFacts, item_lines, training_loader, waiting, workers
from gpudoctor.analysis.run.recorded_statements import callers, heads_loop
from gpudoctor.analysis.run.steady_run import Run, judged, spot
from gpudoctor.analysis.run.steady_state import Steady
from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.loaders import Loader, LoaderRole, loaders
from gpudoctor.analysis.source.sample_cost import ItemWork, item_work
from gpudoctor.analysis.source.syntax import FunctionNode, is_method_call, walk
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Detail, Finding, Patient, Reads, Severity, SourceSpan, Threshold
from gpudoctor.model.signs.process import Place, ProcessWindow
from gpudoctor.model.signs.source import Known, LoopRole, Script, Source
from gpudoctor.text import duration, percent

_RANDOM = re.compile(r"\brandom\b|randint|choice\(|shuffle|np\.random|torch\.rand|augment|mask_prob|sample\(")
_PIXELS = frozenset({"getpixel", "putpixel"})

_HOT = 0.1
"""Share of the making of items from which on a line is named."""

_LEAST_LOOKS = 10
"""Samples of the workers below which they tell nothing."""


@dataclass(frozen=True, slots=True)
class _Slow:
    span: SourceSpan
    kind: str
    """`pixels`, `tokens` or `text`."""
    what: str
    home: int
    """The line of the function that makes the item: what it repeats is one finding."""


@dataclass(frozen=True, slots=True)
class SlowPreprocessingDetail(Detail):
    """What the rule reads."""

    kind: str | None
    """`pixels`, `tokens`, `text` or `lines`."""


class SlowPreprocessing(Check):
    """Each item is prepared by a slow method, again in every epoch.

    What it finds:
        - In the data set or the collate function of a training loader: Python loops over pixels, array cells or
          `getpixel`/`putpixel`.
        - Tokenising text that does not change, item by item, in a training of several epochs. Reading numbers
          from a text file (`np.loadtxt`) in the same way.
    Why it hurts:
        A Python loop over the pixels of a 224 x 224 image takes 10 to 50 ms, NumPy 0.1 ms. A tokenizer needs
        0.2 to 2 ms per text. Over three epochs it tokenises the same text three times, in workers that could
        read ahead. `np.loadtxt` takes 1 to 10 µs a number, `np.load` of the same array some microseconds in
        all.
    How it knows:
        From the source: gpudoctor follows the loader to the code that makes an item. Loops over pixels are a
        warning. Tokenising is a note, since workers may hide it; only a run shows that.
    False alarms:
        Enough workers hide either. Decoding and resizing images, random augmentation, and texts that change at
        random before they are tokenised are silent. So is a training of one epoch.
    Remedies:
        NumPy or torch operations on the whole array; tokenise once before the training and store the result.
    References:
        - https://huggingface.co/docs/datasets/use_dataset
        - https://numpy.org/doc/stable/user/basics.broadcasting.html
    """

    code = Code("DATA002")
    name = "slow-preprocessing"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="wait_share",
            default=0.10,
            unit="1",
            source="convention: a wait that is worth acting on",
            meaning="If the training waits less than this for its data, slow items do no harm.",
        ),
        Threshold(
            name="share_warned",
            default=0.20,
            unit="1",
            source="DATA001's threshold",
            meaning="Items that make the training wait for this share of a recorded run are a warning.",
        ),
        Threshold(
            name="own_share",
            default=0.5,
            unit="1",
            source="train-doctor: 50 % of the wait in the items' own code",
            meaning="The program's own lines must take at least this share of the item time.",
        ),
        Threshold(
            name="workers_busy",
            default=0.5,
            unit="1",
            source="DATA001's threshold",
            meaning="Workers that are busy for less of their time do not make the training wait: a note.",
        ),
        Threshold(
            name="item_seconds",
            default=0.0002,
            unit="s",
            source="measured: indexing and stacking tensors in memory takes 10 to 50 µs an item",
            meaning="Items that take less than this are not slow.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(patient, window)
            return
        run = judged(patient)
        suspected = suspicions(lambda: self._in_source(patient.source), run)
        yield from self._measured(patient, run, suspected) if run else suspected

    def _live(self, patient: Patient, window: ProcessWindow) -> Iterator[Finding]:
        """In a watched process: the making of items is most of the wait; the function and the line."""
        seen = waiting_live(window)
        if not seen.reaches(self.limit("wait_share")) or hidden(window):
            return
        inline = [place for place in window.places if place.kind in INLINE and place.path]
        count = sum(place.count for place in inline)
        own = _hottest(inline, count)
        who = say("the training process")
        if count < self.limit("own_share") * seen.share * window.samples:
            made = [place for place in window.worker_places if place.kind in INLINE and place.path]
            looks = sum(place.count for place in window.worker_places)
            count = sum(place.count for place in made)
            if looks < _LEAST_LOOKS or count < self.limit("own_share") * looks:
                return
            own, who = (_hottest(made, count), say("each of {most_workers} workers", most_workers=most_workers(window)))
        if own is None:
            return
        yield replace(seen, spans=tuple(spans_of(own))).finding(
            self,
            say(
                "Most of the wait for data ({words}) is the making of items: {who} spends it{where}.",
                words=seen.words,
                who=who,
                where=where(own),
            ),
            name="preprocessing_share",
            severity=Severity.WARNING if seen.share >= self.limit("share_warned") else Severity.NOTE,
            suspected=suspicions(lambda: self._in_source(patient.source), seen),
            detail=SlowPreprocessingDetail(None),
        )

    def _measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        process = run.lead.process
        wait, loader = waiting(process), training_loader(process)
        made = item_lines(run.recording, process, lambda place: heads_loop(patient, place))
        own = sum(item.share for item in made)
        busy = workers(run.recording, process.rank)
        each = busy.item_seconds if busy is not None else _each(run.lead, wait, loader)
        if own < self.limit("own_share") or wait.always < self.limit("wait_share"):
            return
        if each is None or each < self.limit("item_seconds"):
            return
        idle = busy is not None and busy.busy < self.limit("workers_busy")
        share = run.worth(wait.always * own)
        spans = [spot(patient, item.place) for item in made if item.share >= _HOT * own][:3]
        spans += callers(patient, spans[:1])
        yield seen_in_run(run, share, spans).finding(
            self,
            say(
                "Making an item takes {each}, {own} of it in the program's own "
                "lines{at}. "
                "The training waits for its data {always} of the time.",
                each=duration(each),
                own=percent(own),
                at=at(spans),
                always=percent(wait.always),
            ),
            name="preprocessing_share",
            severity=Severity.WARNING if share >= self.limit("share_warned") and not idle else Severity.NOTE,
            suspected=suspected,
            detail=suspected[0].detail if suspected else SlowPreprocessingDetail("lines"),
            numbers=(run.measured("seconds_per_item", each, "s"),),
        )

    def _in_source(self, source: Source) -> Iterator[Finding]:
        if not source.trains:
            return
        said: set[tuple[str, int]] = set()
        engines = 0
        for loader in loaders(source):
            engines += loader.engine
            if loader.role is LoaderRole.TRAINING and (not loader.engine or engines == 1):
                yield from self._from_source(source, loader, said)

    def _from_source(self, source: Source, loader: Loader, said: set[tuple[str, int]]) -> Iterator[Finding]:
        scripts = {script.path: script for script in source.scripts}
        found = [slow for work in item_work(source, loader) if (slow := _slow(scripts, work)) is not None]
        again = _several_epochs(source, loader)
        for slow in found:
            place = (slow.span.path, slow.home)
            if place in said or (slow.kind != "pixels" and not again):
                continue
            said.add(place)
            others = tuple(
                other.span for other in found if other is not slow and (other.span.path, other.home) == place
            )
            once = "" if slow.kind == "pixels" else say(", again in every epoch")
            yield self.finding(
                say(
                    "The items of {loader} are made with {method} ({path}:{line}){once}.",
                    loader=say("the Trainer") if loader.engine else loader.label,
                    method=slow.what,
                    path=slow.span.path.rpartition("/")[2],
                    line=slow.span.line,
                    once=once,
                ),
                evidence=(slow.span, *others[:3], loader.call.span),
                confidence=Confidence.SUSPECTED,
                severity=Severity.WARNING if slow.kind == "pixels" else Severity.NOTE,
                subject=f"{slow.span.path}:{slow.span.line}",
                detail=SlowPreprocessingDetail(slow.kind),
            )


def _each(state: Steady, wait: BatchWait, loader: LoaderFacts | None) -> float | None:
    """Seconds an item where the training process makes them itself; None where the batch is not known."""
    samples = state.per_step("samples")
    if not samples and loader is not None and loader.batch_size:
        samples = loader.batch_size * max(1.0, state.per_step("batches"))
    return wait.per_step / samples if samples else None


def _slow(scripts: dict[str, Script], work: ItemWork) -> _Slow | None:
    script = scripts.get(work.span.path)
    if script is None:
        return None
    if work.what == "tokenises text":
        function = _function(script, work.span)
        if function is None or _RANDOM.search(ast.unparse(function)):
            return None
        home = getattr(function, "lineno", work.span.line)
        return _Slow(
            work.span, "tokens", say("a tokenizer call for {of}, {call}()", of=_of(work), call=work.call), home
        )
    if work.what == "parses a text file":
        home = getattr(_function(script, work.span), "lineno", work.span.line)
        return _Slow(
            work.span,
            "text",
            say("{call}() of a text file for {of}", call=work.call.rpartition(".")[2], of=_of(work)),
            home,
        )
    if work.what == "runs a Python loop":
        loop = _at(script, work.span)
        if isinstance(loop, ast.For) and _over_cells(loop):
            return _Slow(work.span, "pixels", say("nested Python loops over the cells of an array"), work.span.line)
    return None


def _of(work: ItemWork) -> str:
    return say("several at once") if work.several else say("each of them")


def _over_cells(loop: ast.For) -> bool:
    """Two loops over ranges, the inner one touching an array cell by both counters, or a pixel by its place."""
    outer = _counter(loop)
    for node in walk(loop):
        inner = _counter(node) if isinstance(node, ast.For) and node is not loop else ""
        if not outer or not inner:
            continue
        for part in walk(node):
            if is_method_call(part, *_PIXELS):
                return True
            if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Tuple) and _plain(part, outer, inner):
                return True
            if not (isinstance(part, ast.Subscript) and isinstance(part.value, ast.Subscript)):
                continue
            if {ast.unparse(part.slice), ast.unparse(part.value.slice)} == {outer, inner}:
                return True
    return False


def _plain(part: ast.Subscript, outer: str, inner: str) -> bool:
    """`image[y, x]`, no slices: a block copied at once is work for NumPy."""
    assert isinstance(part.slice, ast.Tuple)
    names = {item.id for item in part.slice.elts if isinstance(item, ast.Name)}
    return {outer, inner} <= names


def _counter(loop: ast.For) -> str:
    if isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call):
        return loop.target.id if ast.unparse(loop.iter.func) == "range" else ""
    return ""


def _function(script: Script, span: SourceSpan) -> ast.AST | None:
    """The function around a place; for a lambda the statement."""
    for node in walk(script.tree):
        if isinstance(node, ast.Call) and (node.lineno, node.col_offset + 1) == (span.line, span.column):
            above = list(enclosing(script, node))
            return next((item for item in above if isinstance(item, FunctionNode)), above[0] if above else None)
    return None


def _at(script: Script, span: SourceSpan) -> ast.AST | None:
    return next(
        (node for node in walk(script.tree)
         if isinstance(node, ast.For) and (node.lineno, node.col_offset + 1) == (span.line, span.column)),
        None,
    )  # fmt: skip


def _several_epochs(source: Source, loader: Loader) -> bool:
    """Whether the training goes over the set more than once, as far as can be told."""
    if loader.engine:
        epochs, steps = loader.call.keywords.get("num_train_epochs"), loader.call.keywords.get("max_steps")
        if epochs is None:
            return steps is None  # the default is three
        return isinstance(epochs, Known) and isinstance(epochs.value, int | float) and epochs.value > 1
    for script in source.scripts:
        for loop in script.loops:
            if (
                loop.role is LoopRole.EPOCHS
                and loop.iterates
                and not re.fullmatch(r"range\((?:0, ?)?1\)", loop.iterates)
            ):
                return True
    return False


def _hottest(places: Sequence[Place], count: int) -> list[Place] | None:
    """Places of the function that most samples fell on; None where none stands out."""
    sums: dict[tuple[str, str], int] = {}
    for place in places:
        sums[place.path, place.function] = sums.get((place.path, place.function), 0) + place.count
    if not sums:
        return None
    top = max(sums, key=lambda key: sums[key])
    if sums[top] * 3 < count:
        return None
    return [place for place in places if (place.path, place.function) == top]
