"""OBS003: checkpoints are written every few steps of the training loop."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import Observation
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.call_frequency import TrainingCall, calls_in_training, full_batch, often
from gpudoctor.lang import say, template
from gpudoctor.model import OWN_CHOICE, Finding, Patient, Reads, Severity, Threshold
from gpudoctor_checks.declared import PeriodDetail, measured, shown_call
from gpudoctor_checks.run_check import RecurringCheck
from gpudoctor_checks.thresholds import EVENTS

_SAVES = re.compile(
    r"safetensors\.torch\.save_|torch\.distributed\.checkpoint\.(?:async_)?save|accelerate\.Accelerator\.save_"
    r"|lightning\.Fabric\.save$|deepspeed\.DeepSpeedEngine\.save_|torch_xla\.core\.xla_model\.save$"
)
_STATE = re.compile(r"\{|state|model|net|ckpt|checkpoint|params|weights", re.IGNORECASE)


class CheckpointTooOften(RecurringCheck):
    """A checkpoint is written every few steps of the training loop.

    What it finds:
        `torch.save` of a model or a state dict, `save_pretrained`, `save_checkpoint`, `save_state`, safetensors
        and distributed checkpoints in a training loop. They run on every pass or more often than every 50
        passes.
    Why it hurts:
        A save copies the weights to the host, which waits for the GPU. The training makes no progress while
        they are written. For a model of a billion parameters that is some 16 GB, half a minute on a fast disk.
    How it knows:
        From the source: which calls a pass reaches, through functions, and under which conditions. It
        understands `if step % 500 == 0` with N from constants and options. The source does not show the cost:
        it is a note until a run has measured it.
    False alarms:
        Small models saved in milliseconds. A save at each epoch, of the best model so far, once, or on failure
        is not a finding. Neither is a loop known to end within 50 steps.
    Remedies:
        Save every 500 steps or once per epoch, keep the last few checkpoints, and write from another thread
        (async_save).
    References:
        - https://pytorch.org/docs/stable/distributed.checkpoint.html
    """

    code = "OBS003"
    phase = "checkpoint"
    measures = template("checkpoint share")
    sentence = template("Saving takes {cost}{often}{where}.")
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold(
            "save_period",
            50,
            "{steps}",
            "a tenth of transformers' default of 500 steps",
            "Saving more often than once in this many steps is a finding.",
        ),
        *Threshold.note_and_warning(
            "Saves that take this share of a recorded run are",
            noted=0.03,
            warned=0.08,
            source="train-doctor warns from 2 %",
            source_warned=OWN_CHOICE,
        ),
        EVENTS,
    )

    def seen(self, patient: Patient, run: Run) -> Observation:
        seen = of_run.price(patient, run, phases=(self.phase,), owners=(of_run.LineOwner.SAVING,))
        return of_run.recurring_in_run(run, seen, self.phase, "save")

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        every = self.limit("save_period")
        for found in calls_in_training(patient.source, _saves, every=every, skip=full_batch, distinct=True):
            yield from map(self._found, found)

    def _found(self, found: TrainingCall) -> Finding:
        event, call, period = found.event, found.call, found.period
        return self.finding(
            say(
                "{call}() writes a checkpoint {often} (loop at line {line}); "
                "the norm is a period of {limit:.0f} steps or more.",
                call=shown_call(call),
                often=often(period),
                line=found.loop.span.line,
                limit=self.limit("save_period"),
            ),
            evidence=(event.span, *event.via, measured("steps_between_saves", period, "{steps}", found.loop)),
            severity=Severity.NOTE,
            detail=PeriodDetail(period=period, norm=self.limit("save_period")),
        )


def _saves(found: TrainingCall) -> bool:
    """Whether a call writes a model or the training's state, not a tensor or a list of losses."""
    call = found.call
    if call.name in {"torch.save", "accelerate.Accelerator.save"}:
        return bool(call.node.args) and _STATE.search(ast.unparse(call.node.args[0])) is not None
    # A method of the program's own is followed, and judged by what it does.
    own = call.receiver in {"", "self", "cls"} or "tokenizer" in f"{call.name}{call.receiver}".lower()
    return bool(_SAVES.match(call.name)) or (call.method in {"save_pretrained", "save_checkpoint"} and not own)
