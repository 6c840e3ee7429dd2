"""The hidden loops of engines: transformers.Trainer, Lightning. Their events are the user's hooks."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpudoctor.model.evidence import SourceSpan
from gpudoctor.vitals.source.definitions import Function, Klass, Module
from gpudoctor.vitals.source.events import Step, Walker
from gpudoctor.vitals.source.kinds import kind_of
from gpudoctor.vitals.source.things import Thing

_STEP_HOOKS = (
    "on_train_batch_start", "training_step", "on_before_zero_grad", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step", "optimizer_step", "lr_scheduler_step", "on_train_batch_end",
)  # fmt: skip
_EVALUATION_HOOKS = ("on_validation_batch_start", "validation_step", "on_validation_batch_end", "test_step",
                     "on_validation_epoch_end", "on_test_epoch_end", "validation_epoch_end")  # fmt: skip
_HF_STEP = ("training_step", "compute_loss", "optimizer_step", "log", "on_step_begin", "on_substep_end", "on_pre_optimizer_step",
            "on_step_end", "on_log", "create_accelerator_and_postprocess")  # fmt: skip
_HF_EVALUATION = (
    "compute_metrics",
    "prediction_step",
    "evaluation_loop",
    "on_evaluate",
    "preprocess_logits_for_metrics",
)
_LIGHTNING_FITS = ("lightning.Trainer.fit", "lightning.cli.LightningCLI", "lightning.LightningCLI")


@dataclass(slots=True, eq=False)
class EngineLoop:
    """An engine's loop over its steps."""

    engine: str
    module: Module
    span: SourceSpan
    end_line: int
    function: str
    iterates: str
    hooks: tuple[tuple[Function, bool], ...]
    """The user's functions, with whether they evaluate."""
    confident: bool = True

    def steps(self, walker: Walker) -> Iterator[Step]:
        """What one step of the engine runs of the user's code."""
        for function, evaluation in self.hooks:
            yield from walker.function_steps(function, evaluation)


def engine_loops(modules: Sequence[Module], things: Callable[[Module, ast.expr], Thing]) -> list[EngineLoop]:
    """Every engine that the program starts."""
    klasses = [klass for module in modules for klass in module.klasses]
    found: list[EngineLoop] = []
    fitted = False
    for module in modules:
        for call in sorted(module.calls.values(), key=lambda c: (c.span.line, c.span.column)):
            kind = kind_of(call.receiver_type)
            name = None
            if call.method == "train" and kind == "transformers.Trainer":
                name, hooks = str(call.receiver_type), _hf_hooks(modules, klasses)
            elif call.name in _LIGHTNING_FITS:
                name, hooks = "lightning.Trainer", _lightning_hooks(klasses)
                fitted = True
            if name is None:
                continue
            found.append(
                EngineLoop(
                    engine=name,
                    module=module,
                    span=call.span,
                    end_line=call.span.end_line or call.span.line,
                    function=call.function,
                    iterates=module.segment(call.node),
                    hooks=hooks,
                )
            )
    return found if fitted else found + _unfitted(klasses)


def _unfitted(klasses: Sequence[Klass]) -> list[EngineLoop]:
    """A LightningModule whose fit is elsewhere: its training_step is a step all the same."""
    found = []
    for klass in klasses:
        step = klass.members.get("training_step")
        if (
            klass.kind == "lightning.LightningModule"
            and step is not None
            and isinstance(step.definition, Function)
        ):
            node = step.definition.node
            found.append(
                EngineLoop(
                    engine="lightning.Trainer",
                    module=klass.module,
                    span=klass.module.span(node),
                    end_line=node.end_lineno or node.lineno,
                    function=klass.name,
                    iterates="training_step",
                    hooks=_lightning_hooks([klass]),
                )
            )
    return found


def _lightning_hooks(klasses: Sequence[Klass]) -> tuple[tuple[Function, bool], ...]:
    hooks: list[tuple[Function, bool]] = []
    for names, evaluation in ((_STEP_HOOKS, False), (_EVALUATION_HOOKS, True)):
        for klass in klasses:
            if not (klass.kind or "").startswith("lightning."):
                continue
            for name in names:
                member = klass.members.get(name)
                if member is not None and isinstance(member.definition, Function):
                    hooks.append((member.definition, evaluation))
    return tuple(hooks)


def _hf_hooks(modules: Sequence[Module], klasses: Sequence[Klass]) -> tuple[tuple[Function, bool], ...]:
    hooks: list[tuple[Function, bool]] = []
    for names, evaluation in ((_HF_STEP, False), (_HF_EVALUATION, True)):
        for klass in klasses:
            kind = klass.kind or ""
            if kind_of(kind) != "transformers.Trainer" and "Callback" not in kind:
                continue
            for name in names:
                member = klass.members.get(name)
                if member is not None and isinstance(member.definition, Function):
                    hooks.append((member.definition, evaluation))
        for module in modules:
            for function in module.functions:
                if evaluation and function.short in names and function.klass is None:
                    hooks.append((function, True))
    return tuple(hooks)
