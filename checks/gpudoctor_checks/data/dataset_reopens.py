"""DATA011 dataset-reopens."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.run.cost_attribution import seen_in_run
from gpudoctor.analysis.run.data_waits import item_lines, waiting
from gpudoctor.analysis.run.line_costs import relative
from gpudoctor.analysis.run.recorded_statements import function_at
from gpudoctor.analysis.run.steady_run import Run, judged
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.signs.source import Script
from gpudoctor.text import percent
from gpudoctor_checks.data.own_samplers import decoded_for_length, lost_batches
from gpudoctor_checks.data.reopened_files import ReopenedFile, opened_again


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReopensDetail(Detail):
    """What the rule reads."""

    kind: str
    """`opened`, `lengths` or `lost`."""
    batch: str = ""
    """The name of the batch that is lost."""
    call: str = ""
    """Full name of what opens the file."""
    owner: str = ""
    """The data set's class."""
    path: str = ""
    """The file, as written."""


class DatasetReopens(Check):
    """Each item opens or loads the same file again, or a sampler reads every item for its length.

    What it finds:
        A `__getitem__` that opens or loads a file whose path does not depend on the index. Examples:
        `h5py.File`, `np.load` without `mmap_mode`, `pd.read_csv`, `json.load`, `torch.load`, `pickle.load`. A
        sampler that fetches every item of the data set to learn its length. A sampler of batches by token
        budget that never yields the last batch it has begun.
    Why it hurts:
        Opening an HDF5 file costs 0.3 to 1 ms, ten times that on a network file system. Loading a whole file
        reads all of it for one item. An epoch then reads the set as often as it has items. Lengths by decoding
        read the whole set before the first step. A lost batch is data that is never trained on.
    How it knows:
        From the source: the path is followed back. It counts if it is a constant, a module-level name, or an
        attribute that only the constructor sets. The result must not be kept in the data set.
    False alarms:
        Files of some hundred bytes. Paths that depend on the index and files opened on first use and kept are
        silent. So are cached functions and memory-mapped arrays.
    Remedies:
        Open once per worker and keep it; memory-map arrays; store lengths beside the data.
    References:
        - https://pytorch.org/docs/stable/data.html#multi-process-data-loading
        - https://numpy.org/doc/stable/reference/generated/numpy.load.html
    """

    code = Code("DATA011")
    name = "dataset-reopens"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="wait_share",
            default=0.02,
            unit="1",
            source="convention: a fiftieth of a run is not worth an edit",
            meaning="If the function that opens the file takes less of a recorded run, gpudoctor reports nothing.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        for script in patient.source.scripts:
            for finding in self._from_source(script):
                if run is None or finding.detail_of(DatasetReopensDetail).kind != "opened":
                    yield finding
                else:
                    yield from self._measured(run, script, finding)

    def _measured(self, run: Run, script: Script, suspected: Finding) -> Iterator[Finding]:
        """The share of the wait that falls on the function in which the file is opened."""
        process, span = run.lead.process, suspected.span
        function = function_at(script, span.line) if span is not None else ""
        wait = waiting(process).always
        inside = sum(
            item.share
            for item in item_lines(run.recording, process)
            if item.place.function.rpartition(".")[2] == function
            and relative(run.recording, item.place.path).endswith(script.path.removeprefix("./"))
        )
        share = run.worth(wait * inside)
        if share < self.limit("wait_share"):
            return
        yield seen_in_run(run, share).finding(
            self,
            say(
                "{message} Its function takes {inside} of the item time, and the training "
                "waits for items {wait} of the time.",
                message=suspected.message,
                inside=percent(inside),
                wait=percent(wait),
            ),
            name="reopening_share",
            severity=suspected.severity,
            suspected=[suspected],
            detail=suspected.detail,
        )

    def _from_source(self, script: Script) -> Iterator[Finding]:
        for opened in opened_again(script):
            yield self._reopened(script, opened)
        for owner, node, each_epoch in decoded_for_length(script):
            when = say("each time that it is iterated") if each_epoch else say("before the first step")
            yield self.finding(
                say("{owner} loads every item of the data set to compute its length, {when}.", owner=owner, when=when),
                evidence=(script.span(node),),
                confidence=Confidence.SUSPECTED,
                severity=Severity.WARNING if each_epoch else Severity.NOTE,
                subject=f"{script.path}:{script.span(node).line}",
                detail=DatasetReopensDetail(kind="lengths"),
            )
        for owner, loop, batch in lost_batches(script):
            yield self.finding(
                say(
                    "{owner} ends without its last batch: `{batch}` still contains samples when the loop ends, "
                    "and "
                    "they are never yielded.",
                    owner=owner,
                    batch=batch,
                ),
                evidence=(script.span(loop),),
                confidence=Confidence.SUSPECTED,
                subject=f"{script.path}:{script.span(loop).line}",
                detail=DatasetReopensDetail(kind="lost", batch=batch),
            )

    def _reopened(self, script: Script, opened: ReopenedFile) -> Finding:
        span = script.span(opened.node)
        return self.finding(
            say(
                "{owner}.__getitem__ {opened_what} {opened_path} again for every item.",
                owner=opened.owner,
                opened_what=opened.what,
                opened_path=opened.path,
            ),
            evidence=(span,),
            confidence=Confidence.SUSPECTED,
            subject=f"{script.path}:{span.line}",
            detail=DatasetReopensDetail(kind="opened", call=opened.call, owner=opened.owner, path=opened.path),
        )
