"""Answers OBS003: the period to save at."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Resource, Rule
from gpudoctor.model.reading.cadence import event_at, less_often
from gpudoctor.model.reading.recordings.engines import engine_setting
from gpudoctor.model.workload import scripts_given

EVERY = 500
"""Steps between two saves: transformers' default."""


class CheckpointTooOftenRule(Rule):
    """Save every 500 steps; write in the background."""

    answers = Code("OBS003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        setting = engine_setting(finding, "save", EVERY)
        if setting is not None:
            yield Remedy(
                id="OBS003-setting",
                title=setting[0],
                steps=(setting[1],),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SETTING,
                sets=(("save_period", str(EVERY)),),
            )
            return
        option = str(finding.fact("option") or "")
        edits = _edits(finding, patient)
        steps = [f"if step % {EVERY} == 0:   # around the save, and one more save after the loop"]
        if option:
            steps.insert(0, f"launch with {option} {EVERY}")
        yield Remedy(
            id="OBS003-every",
            title=f"save every {EVERY} steps" + (f" ({option} {EVERY})" if option else ""),
            steps=tuple(steps),
            # The files that a run leaves behind are other ones: not the same result.
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            override=(("every", str(EVERY)),),
            sets=(("save_period", str(EVERY)),),
            edits=edits,
        )
        yield Remedy(
            id="OBS003-async",
            title="write in the background with torch.distributed.checkpoint.async_save",
            steps=(
                "future = torch.distributed.checkpoint.async_save(state, checkpoint_id=path)",
                "future.result()   # before the next save",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
            uses=frozenset({Resource.HOST_MEMORY}),
            references=(
                "https://pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict_saver.async_save",
            ),
        )


def _edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    span = finding.span
    for script, loop in scripts_given(patient).training_loops if span is not None else ():
        if span is not None and script.path == span.path and loop.span.line == finding.fact("loop_line"):
            event = event_at(loop, span.line, span.column, span.path)
            if event is not None:
                return less_often(script, loop, event, EVERY)
    return ()
