"""DATA011 dataset-reopens."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import bound_to
from gpudoctor.analysis.source.syntax import names_in, walk
from gpudoctor.lang import say
from gpudoctor.model import Check, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Script

_OPENERS = {
    "h5py.File": "opens",
    "numpy.load": "loads",
    "numpy.loadtxt": "parses",
    "pandas.read_csv": "parses",
    "torch.load": "loads",
    "safetensors.torch.load_file": "loads",
    "lmdb.open": "opens",
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
        kept in the data set. That is a note: only a run shows what it costs.
    False alarms:
        Files of some hundred bytes. Files opened on first use and kept are silent. So are cached functions and
        memory-mapped arrays.
    Remedies:
        Open once per worker and keep it; memory-map arrays.
    References:
        - https://pytorch.org/docs/stable/data.html#multi-process-data-loading
        - https://numpy.org/doc/stable/reference/generated/numpy.load.html
    """

    code = "DATA011"
    reads = frozenset({Reads.SOURCE})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for script in patient.source.scripts:
            yield from self._from_source(script)

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
            detail=DatasetReopensDetail(call=call.name, owner=owner, path=path),
        )
