"""DATA002 slow-preprocessing."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, spot
from gpudoctor.analysis.source.control_flow import function_of
from gpudoctor.analysis.source.loaders import Loader, LoaderRole, loaders
from gpudoctor.analysis.source.sample_cost import ItemWork, item_work
from gpudoctor.analysis.source.syntax import is_method_call, walk
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import replace
from gpudoctor.model.signs.source import Known, LoopRole, Source
from gpudoctor.text import duration, percent
from gpudoctor_checks.run_check import RunCheck

_RANDOM = re.compile(r"\brandom\b|randint|choice\(|shuffle|np\.random|torch\.rand|augment|mask_prob|sample\(")
_KINDS = {"runs a Python loop": "pixels", "tokenises text": "tokens", "parses a text file": "text"}
"""Work of an item that is slow, by its words."""

_HOT = 0.1
"""Share of the making of items from which on a line is named."""


class SlowPreprocessing(RunCheck):
    """Each item is prepared by a slow method, again in every epoch.

    What it finds:
        - In the data set or the collate function of a training loader: Python loops over pixels, array cells or
          `getpixel`/`putpixel`.
        - Tokenising text that does not change, item by item, in a training of several epochs. Reading numbers
          from a text file (`np.loadtxt`) in the same way.
    Why it hurts:
        A Python loop over the pixels of a 224 x 224 image takes 10 to 50 ms, NumPy 0.1 ms. A tokenizer needs
        0.2 to 2 ms per text. Over three epochs it tokenises the same text three times, in workers that could
        read ahead. `np.loadtxt` takes 1 to 10 µs a number, `np.load` of the same array some microseconds.
    How it knows:
        It follows the loader to the code that makes an item. That is a note, since enough workers may hide it.
    False alarms:
        Decoding and resizing images, random augmentation, and texts that change at random before they are
        tokenised are silent. So is a training of one epoch.
    Remedies:
        NumPy or torch operations on the whole array; tokenise once before the training and store the result.
    References:
        - https://huggingface.co/docs/datasets/use_dataset
        - https://numpy.org/doc/stable/user/basics.broadcasting.html
    """

    code = "DATA002"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        Threshold(
            "wait_share",
            0.10,
            "1",
            "convention: a wait that is worth acting on",
            "If the training waits less than this for its data, items do no harm; twice this is a warning.",
        ),
        Threshold(
            "own_share",
            0.5,
            "1",
            "train-doctor: 50 % of the wait in the items' own code",
            "The program's own lines must take at least this share of the item time.",
        ),
        Threshold(
            "workers_busy",
            0.5,
            "1",
            "DATA001's threshold",
            "Workers that are busy for less of their time do not make the training wait: a note.",
        ),
        Threshold(
            "item_seconds",
            0.0002,
            "s",
            "measured: indexing and stacking tensors in memory takes 10 to 50 µs an item",
            "Items that take less than this are not slow.",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        process = run.lead.process
        wait, loader = of_run.waiting(process), of_run.training_loader(process)
        made = of_run.item_lines(run.recording, process, lambda place: of_run.heads_loop(patient, place))
        own = sum(item.share for item in made)
        busy = of_run.workers(run.recording, process.rank)
        samples = run.lead.per_step("samples")
        if not samples and loader is not None and loader.batch_size:
            samples = loader.batch_size * max(1.0, run.lead.per_step("batches"))
        own_items = wait.per_step / samples if samples else None  # where the training process makes them itself
        each = busy.item_seconds if busy is not None else own_items
        if own < self.limit("own_share") or wait.always < self.limit("wait_share"):
            return
        if each is None or each < self.limit("item_seconds"):
            return
        idle = busy is not None and busy.busy < self.limit("workers_busy")
        share = run.worth(wait.always * own)
        spans = [spot(patient, item.place) for item in made if item.share >= _HOT * own][:3]
        spans += of_run.callers(patient, spans[:1])
        slow = of_run.seen_in_run(run, share, spans).finding(
            self,
            say(
                "Making an item takes {each}, {own} of it in the program's own lines{at}. The training waits for its "
                "data {always} of the time.",
                each=duration(each),
                own=percent(own),
                at=of_run.at(spans),
                always=percent(wait.always),
            ),
            name="preprocessing_share",
            severity=Severity.WARNING if share >= 2 * self.limit("wait_share") and not idle else Severity.NOTE,
            suspected=suspected,
            detail=suspected[0].detail if suspected else Facts(kind="lines"),
            numbers=(run.measured("seconds_per_item", each, "s"),),
        )
        yield replace(slow, effect_of="DATA001")  # it explains the wait

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        """Loops over the cells of an array, and in a training of several epochs tokenisers and parsers of text."""
        source = patient.source
        scripts = {script.path: script for script in source.scripts}
        said: set[tuple[str, int]] = set()
        for loader in loaders(source) if source.trains else ():
            for work in item_work(source, loader) if loader.role is LoaderRole.TRAINING else ():
                script = scripts.get(work.span.path)
                kind = _KINDS.get(work.what, "")
                if script is None or not kind:
                    continue
                at = (work.span.line, work.span.column)
                nodes = (item for item in walk(script.tree) if isinstance(item, ast.Call | ast.For))
                node = next((item for item in nodes if (item.lineno, item.col_offset + 1) == at), script.tree)
                home = function_of(script, node) or script.tree
                if kind == "pixels":
                    slow = isinstance(node, ast.For) and _over_cells(node)
                else:
                    slow = _several_epochs(source, loader) and not _RANDOM.search(ast.unparse(home))
                place = (work.span.path, getattr(home, "lineno", work.span.line))
                if slow and place not in said:  # what one function repeats is one finding
                    said.add(place)
                    yield self._found(loader, work, kind)

    def _found(self, loader: Loader, work: ItemWork, kind: str) -> Finding:
        of = say("each of them")
        words = {
            "pixels": say("nested Python loops over the cells of an array"),
            "tokens": say("a tokenizer call for {of}, {call}()", of=of, call=work.call),
            "text": say("{call}() of a text file for {of}", call=work.call.rpartition(".")[2], of=of),
        }
        return self.finding(
            say(
                "The items of {loader} are made with {method} ({path}:{line}){once}.",
                loader=say("the Trainer") if loader.engine else loader.label,
                method=words[kind],
                path=work.span.path.rpartition("/")[2],
                line=work.span.line,
                once="" if kind == "pixels" else say(", again in every epoch"),
            ),
            evidence=(work.span, loader.call.span),
            severity=Severity.NOTE,
            detail=Facts(kind=kind),
        )


def _over_cells(loop: ast.For) -> bool:
    """Two loops over ranges whose inner one touches a cell by both counters, `image[:, y, x]`; or one over pixels."""
    for inner in (node for node in walk(loop) if isinstance(node, ast.For) and node is not loop):
        counters = {ast.unparse(each.target) for each in (loop, inner) if ast.unparse(each.iter).startswith("range(")}
        cells = (getattr(part.slice, "elts", ()) for part in walk(inner) if isinstance(part, ast.Subscript))
        by_both = len(counters) == 2 and any(counters <= set(map(ast.unparse, cell)) for cell in cells)
        if by_both or any(is_method_call(part, "getpixel", "putpixel") for part in walk(inner)):
            return True
    return False


def _several_epochs(source: Source, loader: Loader) -> bool:
    """Whether the training goes over the set more than once, as far as can be told."""
    if loader.engine:
        epochs, steps = loader.call.keywords.get("num_train_epochs"), loader.call.keywords.get("max_steps")
        if epochs is None:
            return steps is None  # the default is three
        return isinstance(epochs, Known) and isinstance(epochs.value, int | float) and epochs.value > 1
    loops = (loop for script in source.scripts for loop in script.loops if loop.role is LoopRole.EPOCHS)
    return any(loop.iterates and loop.iterates not in {"range(1)", "range(0, 1)"} for loop in loops)
