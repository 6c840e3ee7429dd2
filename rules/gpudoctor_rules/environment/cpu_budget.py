"""Answers ENV007 cpu-budget."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Resource, Rule
from gpudoctor.model.signs.source import Call, Script
from gpudoctor.text import count
from gpudoctor_checks.environment.cpu_budget import CpuBudgetDetail

_OMP = "https://docs.pytorch.org/docs/stable/threading_environment_variables.html"
_MOST_THREADS = 16
"""More threads a rank have nothing to do while the work is on the GPU."""


class CpuBudgetRule(Rule):
    """OMP_NUM_THREADS and workers a rank, so that all ranks together fit the CPUs."""

    answers = Code("ENV007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(CpuBudgetDetail)
        cpus, ranks = detail.cpus or 1, detail.ranks or 1
        workers, threads = detail.workers, detail.threads or 1
        each = max(1, int(cpus / ranks))
        if detail.kind == "torchrun":
            spare = min(_MOST_THREADS, max(1, each - workers))
            yield self._threads(spare, say("each of {ranks} ranks has {cpus:g} CPUs", ranks=ranks, cpus=cpus / ranks))
            return
        fewer = min(workers, max(1, each - 1)) if workers else 0
        if threads > max(1, each - fewer):
            right = min(_MOST_THREADS, max(1, each - fewer))
            call = _setting(finding, patient)
            yield (
                self._call(right, *call)
                if call
                else self._threads(right, say("{cpus:g} CPUs, {ranks} rank(s)", cpus=cpus, ranks=ranks))
            )
        if fewer < workers:
            yield self._workers(fewer, workers, each)

    def _threads(self, threads: int, because: str) -> Remedy:
        return Remedy(
            id=f"{self.answers}-threads",
            title=f"export OMP_NUM_THREADS={threads}",
            steps=(
                say("export OMP_NUM_THREADS={threads}   # before the launch line: {why}", threads=threads, why=because),
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            sets=(("OMP_NUM_THREADS", str(threads)),),
            override=(("env.OMP_NUM_THREADS", str(threads)),),
            references=(_OMP,),
        )

    def _call(self, threads: int, script: Script, call: Call) -> Remedy:
        title = f"torch.set_num_threads({threads})"
        edits = (replace_node(script, call.node.args[0], str(threads)),)
        return Remedy(
            id=f"{self.answers}-threads",
            title=title,
            steps=(
                say(
                    "line {line}: {call}, or no such call: torch counts the cores by itself",
                    line=call.span.line,
                    call=title,
                ),
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            sets=(("OMP_NUM_THREADS", str(threads)),),
            edits=edits,
            override=(("torch.num_threads", str(threads)),),
            references=(_OMP,),
        )

    def _workers(self, fewer: int, workers: int, each: int) -> Remedy:
        return Remedy(
            id=f"{self.answers}-workers",
            title=say("set num_workers={fewer} per rank instead of {workers}", fewer=fewer, workers=workers),
            steps=(say("num_workers={fewer}: each rank has {cpus} to itself", fewer=fewer, cpus=count(each, "CPU")),),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            sets=(("DataLoader.num_workers", str(fewer)),),
            override=(("DataLoader.num_workers", str(fewer)),),
            uses=frozenset[Resource](),
            references=("https://pytorch.org/docs/stable/data.html#multi-process-data-loading",),
        )


def _setting(finding: Finding, patient: Patient) -> tuple[Script, Call] | None:
    """The call that sets the threads, where the finding names it and its number can be written."""
    span = finding.span
    for script in scripts_given(patient).scripts:
        for call in script.calls_to("torch.set_num_threads"):
            if call.span == span and len(call.node.args) == 1 and not call.node.keywords:
                return script, call
    return None
