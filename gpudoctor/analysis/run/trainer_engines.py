"""A framework's own training loop: which line of the user's starts it.

`trainer.train()` and `trainer.fit(model)` stand for whole trainings: what happens under such a line is not
mended on it, but by the framework's settings.
"""

from collections.abc import Sequence

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.line_costs import LinePlace, place_of
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.recording import Process

ENGINES = ("transformers.Trainer", "lightning")
"""Those whose loop is theirs; under accelerate and DeepSpeed the loop is the user's own."""


@once
def engine_of(process: Process) -> tuple[str, LinePlace | None]:
    """The engine whose loop a process ran, and the line that started it; ("", None) where it is the user's."""
    loop = process.last("loop")
    name = str(loop.get("engine") or "") if loop is not None else ""
    return (name, place_of(loop)) if loop is not None and name in ENGINES else ("", None)


def started_at(run: Run, spans: Sequence[SourceSpan]) -> str:
    """The engine, where the first of these places is the line that starts it; else ""."""
    name, place = engine_of(run.lead.process)
    if place is None or not spans:
        return ""
    span = spans[0]
    here = span.line == place.line and place.path.endswith(span.path.removeprefix("./"))
    return name if here else ""
