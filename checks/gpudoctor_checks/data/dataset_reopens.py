"""DATA011 dataset-reopens."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, judged
from gpudoctor.analysis.source.control_flow import bound_to
from gpudoctor.analysis.source.syntax import names_in, walk
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Script
from gpudoctor.text import percent

_OPENERS = {
    "h5py.File": "opens",
    "numpy.load": "loads",
    "numpy.loadtxt": "parses",
    "numpy.genfromtxt": "parses",
    "pandas.read_csv": "parses",
    "pandas.read_parquet": "reads",
    "pandas.read_json": "parses",
    "pandas.read_pickle": "loads",
    "pandas.read_excel": "parses",
    "pandas.read_hdf": "reads",
    "torch.load": "loads",
    "joblib.load": "loads",
    "safetensors.torch.load_file": "loads",
    "scipy.io.loadmat": "loads",
    "pyarrow.parquet.read_table": "reads",
    "lmdb.open": "opens",
    "zipfile.ZipFile": "opens",
    "tarfile.open": "opens",
}
"""Calls that open or load a whole file by its path."""


@frozen
class DatasetReopensDetail(Detail):
    """What the rule reads."""

    call: str
    """Full name of what opens the file."""
    owner: str
    """The data set's class."""
    path: str
    """The file, as written."""


class DatasetReopens(Check):
    """Each item opens or loads the same file again.

    What it finds:
        A `__getitem__` that opens or loads a file whose path does not depend on the index. Examples:
        `h5py.File`, `np.load` without `mmap_mode`, `pd.read_csv`, `torch.load`.
    Why it hurts:
        Opening an HDF5 file costs 0.3 to 1 ms, ten times that on a network file system. Loading a whole file
        reads all of it for one item. An epoch then reads the set as often as it has items.
    How it knows:
        From the source: the path names nothing that `__getitem__` is given or computes. The result must not be
        kept in the data set. That is a note; in a recording it is a warning if the function takes the time.
    False alarms:
        Files of some hundred bytes. Files opened on first use and kept are silent. So are cached functions and
        memory-mapped arrays.
    Remedies:
        Open once per worker and keep it; memory-map arrays.
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
                if run is None:
                    yield finding
                else:
                    yield from self._measured(run, script, finding)

    def _measured(self, run: Run, script: Script, suspected: Finding) -> Iterator[Finding]:
        """The share of the wait that falls on the function in which the file is opened."""
        process, span = run.lead.process, suspected.span
        function = of_run.function_at(script, span.line) if span is not None else ""
        wait = of_run.waiting(process).always
        inside = sum(
            item.share
            for item in of_run.item_lines(run.recording, process)
            if item.place.function.rpartition(".")[2] == function
            and of_run.relative(run.recording, item.place.path).endswith(script.path.removeprefix("./"))
        )
        share = run.worth(wait * inside)
        if share < self.limit("wait_share"):
            return
        yield of_run.seen_in_run(run, share).finding(
            self,
            say(
                "{message} Its function takes {inside} of the item time, and the training "
                "waits for items {wait} of the time.",
                message=suspected.message,
                inside=percent(inside),
                wait=percent(wait),
            ),
            name="reopening_share",
            severity=self.severity,
            suspected=[suspected],
            detail=suspected.detail,
        )

    def _from_source(self, script: Script) -> Iterator[Finding]:
        """Files whose path has no part of the index, where the result is not kept and no condition stands around."""
        for info in script.classes.values():
            item = info.methods.get("__getitem__")
            if item is None or item.decorator_list:
                continue
            own = {part.id for part in walk(item) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
            own |= {part.arg for part in item.args.args} - {"self"}
            for call in script.calls:
                inside = call.function == f"{info.name}.__getitem__" and call.name in _OPENERS and call.node.args
                if not inside or call.guards or names_in(call.node.args[0]) & own:
                    continue
                mapped = len(call.node.args) > 1 and call.name == "numpy.load"
                mapped = mapped or any("map" in (keyword.arg or "") for keyword in call.node.keywords)
                if not mapped and "." not in bound_to(script, call.node):
                    yield self._reopened(call, info.name, ast.unparse(call.node.args[0]))

    def _reopened(self, call: Call, owner: str, path: str) -> Finding:
        return self.finding(
            say(
                "{owner}.__getitem__ {opened_what} {opened_path} again for every item.",
                owner=owner,
                opened_what=_OPENERS[call.name],
                opened_path=path,
            ),
            evidence=(call.span,),
            severity=Severity.NOTE,
            detail=DatasetReopensDetail(call=call.name, owner=owner, path=path),
        )
