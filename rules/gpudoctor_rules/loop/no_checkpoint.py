"""Answers LOOP009: save what a run needs to go on, often enough for its limit."""

from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import bound_to
from gpudoctor.analysis.source.syntax_places import find
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, KeywordEdit, Patient, Remedy, Rule
from gpudoctor_checks.loop.no_checkpoint import NoCheckpointDetail

_TORCH = "https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html"
_TRAINER = "https://huggingface.co/docs/transformers/main_classes/trainer#checkpoints"
_LIGHTNING = "https://lightning.ai/docs/pytorch/stable/common/checkpointing_basic.html"


class NoCheckpointRule(Rule):
    """An interval that loses at most half an hour, or a tenth of a short limit."""

    answers = Code("LOOP009")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(NoCheckpointDetail)
        limit = detail.seconds
        minutes = max(5, round(min(1800.0, limit / 10 if limit else 1800.0) / 60))
        if detail.engine:
            yield self._engine(finding, patient)
            return
        model, optimizer = _names(patient, detail.script)
        if detail.how == "resume":
            yield Remedy(
                id="LOOP009-resume",
                title="load the optimizer, the scheduler and the step with the weights",
                steps=(
                    say(
                        'save {{"model": {model}.state_dict(), "optimizer": {optimizer}.state_dict(), "step": step}}',
                        model=model,
                        optimizer=optimizer,
                    ),
                    say(
                        'load: {optimizer}.load_state_dict(state["optimizer"]); the scheduler '
                        'alike; go on at state["step"]',
                        optimizer=optimizer,
                    ),
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SMALL_EDIT,
                references=(_TORCH,),
            )
            return
        yield Remedy(
            id="LOOP009-save",
            title=say("save a checkpoint to resume from, every {minutes} minutes", minutes=minutes),
            steps=(
                say("every {minutes} minutes, on rank 0:", minutes=minutes),
                f'    state = {{"model": {model}.state_dict(), "optimizer": {optimizer}.state_dict(), '
                '"step": step, "rng": torch.get_rng_state()}',
                '    torch.save(state, "checkpoint.tmp"); os.replace("checkpoint.tmp", "checkpoint.pt")',
                'at the start, when checkpoint.pt is there: load it and go on at state["step"] (--resume)',
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
            references=(_TORCH,),
        )

    def _engine(self, finding: Finding, patient: Patient) -> Remedy:
        """The engine's own saving, switched on again."""
        detail = finding.detail_of(NoCheckpointDetail)
        found = find(patient.source, detail.engine)
        lightning = detail.lightning
        new = (
            (("enable_checkpointing", "True"),) if lightning else (("save_strategy", '"steps"'), ("save_steps", "500"))
        )
        edits: tuple[Edit, ...] = ()
        if found is not None:
            span = found[0].span(found[1])
            edits = (KeywordEdit(path=span.path, line=span.line, column=span.column, set=new),)
        return Remedy(
            id="LOOP009-engine",
            title=", ".join(f"{name}={value}" for name, value in new),
            steps=(
                "set it in the call",
                say("resume: trainer.fit(model, ckpt_path='last')")
                if lightning
                else say("resume: trainer.train(resume_from_checkpoint=True)"),
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            edits=edits,
            references=(_LIGHTNING if lightning else _TRAINER,),
        )


def _names(patient: Patient, path: str) -> tuple[str, str]:
    """How the program calls its model and its optimizer."""
    optimizer = next(
        (
            bound_to(script, call.node)
            for script in patient.source.scripts
            for call in script.calls
            if script.path == path and call.name.startswith("torch.optim.") and call.method[:1].isupper()
        ),
        "",
    )
    return "model", optimizer or "optimizer"
