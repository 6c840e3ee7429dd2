"""A framework's own training loop: which line of the user's starts it, and which settings turn its knobs.

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

_SETTINGS = {
    ("transformers.Trainer", "log"): ("logging_steps={every}", "TrainingArguments(logging_steps={every}, ...)"),
    ("transformers.Trainer", "save"): ("save_steps={every}", "TrainingArguments(save_steps={every}, ...)"),
    ("transformers.Trainer", "eval"): ("eval_steps={every}", "TrainingArguments(eval_steps={every}, ...)"),
    ("lightning", "log"): (
        "log_every_n_steps={every}",
        "Trainer(log_every_n_steps={every}, ...); self.log(..., on_step=False, on_epoch=True) for what is read "
        "once an epoch",
    ),
    ("lightning", "save"): (
        "ModelCheckpoint(every_n_train_steps={every})",
        "Trainer(callbacks=[ModelCheckpoint(every_n_train_steps={every})], ...)",
    ),
    ("lightning", "eval"): (
        "val_check_interval={every}",
        "Trainer(val_check_interval={every}, check_val_every_n_epoch=None, ...), or limit_val_batches=10",
    ),
}  # fmt: skip
"""Engine and what it does too often to the setting, and to how it is written."""


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


def engine_setting(engine: str, kind: str, every: int) -> tuple[str, str]:
    """For an engine's own loop: the setting, and how it is written; `kind` is log, save or eval."""
    title, step = _SETTINGS[engine, kind]
    return title.format(every=every), step.format(every=every)
