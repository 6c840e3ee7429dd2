"""Answers DATA011 dataset-reopens."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import segment
from gpudoctor.analysis.source.syntax_edits import insert_after, replace_node
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.signs.source import Call, Script
from gpudoctor_checks.data.dataset_reopens import DatasetReopensDetail

_WHOLE = ("numpy.load", "pandas.", "torch.load", "joblib.load", "safetensors.", "scipy.io.", "pyarrow.")
"""Loads whose result can be kept as it is."""


class DatasetReopensRule(Rule):
    """Open once, map, keep lengths beside the data."""

    answers = Code("DATA011")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        kind = finding.detail_of(DatasetReopensDetail).kind
        script = next(
            (item for item in scripts_given(patient).scripts if finding.span and item.path == finding.span.path), None
        )
        if kind == "opened":
            yield from _opened(finding, script)
        elif kind == "lengths":
            yield _lengths()
        elif script is not None:
            yield _lost(finding, script)


def _opened(finding: Finding, script: Script | None) -> Iterator[Remedy]:
    detail = finding.detail_of(DatasetReopensDetail)
    call, path = detail.call, detail.path
    found = _call(finding, script) if script is not None else None
    if call == "numpy.load" and found is not None and not found.keywords and not path.strip("'\"").endswith(".npz"):
        yield Remedy(
            id="DATA011-map",
            title='np.load(..., mmap_mode="c")',
            steps=(
                say('np.load({path}, mmap_mode="c")   # reads only what an item asks for (.npy, not .npz)', path=path),
            ),
            applicability=Applicability.DISPLAY_ONLY,  # arrays of objects cannot be mapped
            effort=Effort.ONE_LINE,
            references=("https://numpy.org/doc/stable/reference/generated/numpy.load.html",),
        )
    edits = _kept(finding, script, found) if script is not None and found is not None else ()
    opens = call in {"h5py.File", "lmdb.open", "zipfile.ZipFile", "tarfile.open"}
    yield Remedy(
        id="DATA011-once",
        title="open it on the first item of each worker and keep it" if opens else "load it once and keep it",
        steps=(
            say("if self._file is None:   # None in __init__: an open file must not cross a fork"),
            f"    self._file = {call}({path}, ...)",
        )
        if opens
        else (say("self._data = {call}({path})   # in __init__; index it in __getitem__", call=call, path=path),),
        # What an item changes in place would stay changed.
        applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        edits=edits,
    )


def _call(finding: Finding, script: Script) -> Call | None:
    name = finding.detail_of(DatasetReopensDetail).call
    return next((item for item in script.calls if item.span == finding.span and item.name == name), None)


def _kept(finding: Finding, script: Script, call: Call) -> tuple[Edit, ...]:
    """The load moved to the end of the constructor, its place taken by the attribute."""
    info = script.classes.get(finding.detail_of(DatasetReopensDetail).owner)
    init = info.methods.get("__init__") if info is not None else None
    text = segment(script, call.node)
    if info is None or init is None or not text or "\n" in text or not call.name.startswith(_WHOLE):
        return ()
    names = {node.id for node in ast.walk(call.node) if isinstance(node, ast.Name)}
    own = {item.arg for name in ("__getitem__",) if name in info.methods for item in info.methods[name].args.args}
    last = init.body[-1]
    if (names & own) - {"self"} or "self._loaded" in script.text or isinstance(last, ast.Return | ast.Raise):
        return ()
    return (insert_after(script, last, f"self._loaded = {text}"), replace_node(script, call.node, "self._loaded"))


def _lengths() -> Remedy:
    return Remedy(
        id="DATA011-lengths",
        title="store the lengths next to the data, and let the sampler read them",
        steps=(
            'dataset = dataset.map(lambda row: {"length": len(row["input_ids"])}, num_proc=4)',
            'lengths = dataset["length"]   # one column, no item is decoded',
            'or save them once: numpy.save("lengths.npy", lengths)',
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )


def _lost(finding: Finding, script: Script) -> Remedy:
    batch = finding.detail_of(DatasetReopensDetail).batch
    line = finding.span.line if finding.span is not None else 0
    loop = next((node for node in ast.walk(script.tree) if isinstance(node, ast.For) and node.lineno == line), None)
    edits = (insert_after(script, loop, f"if {batch}: yield {batch}"),) if loop is not None else ()
    return Remedy(
        id="DATA011-last",
        title=say("add `if {batch}: yield {batch}` after the loop", batch=batch),
        steps=(f"if {batch}:", say("    yield {batch}   # after the loop", batch=batch)),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        edits=edits,
    )
