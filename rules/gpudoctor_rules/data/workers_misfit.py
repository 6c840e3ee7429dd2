"""Answers DATA003 workers-misfit."""

from collections.abc import Iterator

from gpudoctor.analysis.run.recorded_loaders import RUN
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Resource,
    Rule,
    Unavailable,
)
from gpudoctor.model.job_devices import cpus_per_rank
from gpudoctor_checks.data.workers_misfit import WorkersMisfitDetail
from gpudoctor_rules.data.loader_bound import PERSISTENT_ORDER

_MOST = 16
"""The optimisation summary's cap on workers of one loader."""


class WorkersMisfitRule(Rule):
    """The number of workers for this machine, kept alive, on a loader that is built once."""

    answers = Code("DATA003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        kind = finding.detail_of(WorkersMisfitDetail).kind
        if kind == "many":
            yield self._fewer(finding, patient)
        elif kind == "without":
            yield self._drop(finding)
            yield self._workers(finding, patient)
        elif kind == "iterated":
            yield self._iterate()
        elif kind == "short":
            yield self._longer()
        elif kind == "respawned":
            yield self._persistent(finding)
        else:
            yield self._once()

    def _fewer(self, finding: Finding, patient: Patient) -> Remedy:
        cpus, origin = cpus_per_rank(patient)
        workers = max(1, min(_MOST, int(cpus) - 1))
        keyword = _keyword(finding, "num_workers")
        option = finding.detail_of(WorkersMisfitDetail).origin or ""
        flag = option.removeprefix("default of ") if option.startswith("default of --") else ""
        step = (
            say("Launch with {flag} {workers}", flag=flag, workers=workers)
            if flag
            else setting(finding, keyword, workers)
        )
        passed = bool(flag) or option in ("command line", RUN)
        return Remedy(
            id="DATA003-fewer",
            title=f"{keyword}={workers}",
            steps=(say("{step} ({origin}, one of them is kept for the training process).", step=step, origin=origin),),
            applicability=Applicability.UNSAFE,
            effort=Effort.SETTING if flag else Effort.ONE_LINE,
            sets=(("DataLoader.num_workers", str(workers)),),
            edits=() if passed else _edits(finding, ((keyword, str(workers)),)),
            override=(("DataLoader.num_workers", str(workers)),),
        )

    def _iterate(self) -> Remedy:
        return Remedy(
            id="DATA003-iterate",
            title="Iterate over the loader once an epoch",
            steps=(
                "Draw all batches of an epoch from one iterator: for batch in loader.",
                "If the loop counts steps: batches = iter(loader) before it, next(batches) in it, and a new "
                "iterator when StopIteration is raised.",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
        )

    def _drop(self, finding: Finding) -> Remedy:
        detail = finding.detail_of(WorkersMisfitDetail)
        keyword = _keyword(finding, str(detail.keyword))
        span = finding.span
        edits: tuple[KeywordEdit, ...] = ()
        if span is not None and detail.droppable:
            edits = (KeywordEdit(path=span.path, line=span.line, column=span.column, remove=(keyword,)),)
        return Remedy(
            id="DATA003-drop",
            title=say("Drop {keyword}", keyword=keyword),
            steps=(
                say("Remove {keyword} from the call: a loader without workers has no use for it.", keyword=keyword),
            ),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            edits=edits,
        )

    def _workers(self, finding: Finding, patient: Patient) -> Remedy:
        detail = finding.detail_of(WorkersMisfitDetail)
        try:
            cpus, origin = cpus_per_rank(patient)
        except Unavailable as error:
            cpus, origin = 5.0, say("a start where the CPUs are not known: {error}", error=error)
        workers = max(1, min(_MOST, int(cpus) - 1))
        keyword = _keyword(finding, "num_workers")
        return Remedy(
            id="DATA003-workers",
            title=f"{keyword}={workers}",
            steps=(
                say(
                    "{setting} ({origin}) and keep {keyword}.",
                    setting=setting(finding, keyword, workers),
                    origin=origin,
                    keyword=detail.keyword,
                ),
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            sets=(("DataLoader.num_workers", str(workers)),),
            uses=frozenset({Resource.CPU, Resource.HOST_MEMORY, Resource.SHARED_MEMORY}),
            edits=_edits(finding, ((keyword, str(workers)),)),
            override=(("DataLoader.num_workers", str(workers)),),
        )

    def _persistent(self, finding: Finding) -> Remedy:
        return Remedy(
            id="DATA003-persistent",
            title="persistent_workers=True",
            steps=("Pass persistent_workers=True: workers and their queue outlive the epoch.", PERSISTENT_ORDER),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            sets=(("DataLoader.persistent_workers", "True"),),
            uses=frozenset({Resource.HOST_MEMORY}),
            edits=_edits(finding, (("persistent_workers", "True"),)),
            override=(("DataLoader.persistent_workers", "True"),),
        )

    def _longer(self) -> Remedy:
        return Remedy(
            id="DATA003-longer",
            title="make epochs longer: let one pass of the loader cover the data set several times",
            steps=(
                "torch.utils.data.ConcatDataset([dataset] * 10), or a sampler that never ends",
                "if the set fits into memory: no loader at all, indices into its tensors",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
        )

    def _once(self) -> Remedy:
        return Remedy(
            id="DATA003-once",
            title="Build the loader once, before the loop, with persistent_workers=True",
            steps=(
                "Move the DataLoader call above the loop and pass persistent_workers=True.",
                "What changes with the epoch goes through the sampler: sampler.set_epoch(epoch).",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
        )


def setting(finding: Finding, keyword: str, value: int) -> str:
    """Where to set a loader's number of workers: in the call, or where the program chooses it."""
    chosen = finding.detail_of(WorkersMisfitDetail).chosen or ""
    return (
        say("Set {chosen}, which the loader gets, to {value}", chosen=chosen, value=value)
        if chosen
        else say("Pass {keyword}={value}", keyword=keyword, value=value)
    )


def _keyword(finding: Finding, name: str) -> str:
    return f"dataloader_{name}" if finding.detail_of(WorkersMisfitDetail).engine else name


def _edits(finding: Finding, settings: tuple[tuple[str, str], ...]) -> tuple[KeywordEdit, ...]:
    span = finding.span
    if span is None or not finding.detail_of(WorkersMisfitDetail).settable:
        return ()
    return (KeywordEdit(path=span.path, line=span.line, column=span.column, set=settings),)
