"""The hidden loops of engines: transformers.Trainer, Lightning. Their events are the user's hooks."""

import ast
from collections.abc import Callable, Sequence

from gpudoctor.analysis.source.syntax import in_order
from gpudoctor.model.signs.source import Event, Loop, LoopRole
from gpudoctor.vitals.source.qualified_names import kind_of
from gpudoctor.vitals.source.values import ClassSymbol, Function, Module

_STEP_HOOKS = in_order(
    "on_train_batch_start training_step on_before_zero_grad on_before_backward on_after_backward "
    "on_before_optimizer_step optimizer_step lr_scheduler_step on_train_batch_end"
)
_EVALUATION_HOOKS = in_order(
    "on_validation_batch_start validation_step on_validation_batch_end test_step on_validation_epoch_end "
    "on_test_epoch_end validation_epoch_end"
)
_HF_STEP = in_order(
    "training_step compute_loss optimizer_step on_step_begin on_substep_end on_pre_optimizer_step on_step_end"
)
"""What the Trainer runs on every step; `log` and `on_log` come every `logging_steps` (500 unless set)."""
_HF_EVALUATION = in_order("compute_metrics prediction_step evaluation_loop on_evaluate preprocess_logits_for_metrics")
_LIGHTNING_FITS = ("lightning.Trainer.fit", "lightning.cli.LightningCLI", "lightning.LightningCLI")


Hooks = tuple[tuple[Function, bool], ...]
"""The user's functions that one step of an engine runs, with whether they evaluate."""
Found = tuple[Module, ast.AST, Loop]


def engine_loops(modules: Sequence[Module], events: Callable[[Hooks], Sequence[Event]]) -> list[Found]:
    """Every engine that the program starts: its module, what starts it, and its loop over its steps."""
    found: list[Found] = []
    fitted: set[Module] = set()
    for module in modules:
        hooks: dict[bool, Hooks] = {}
        for call in sorted(module.calls.values(), key=lambda c: (c.span.line, c.span.column)):
            fits = call.name in _LIGHTNING_FITS
            if not fits and not (call.method == "train" and kind_of(call.receiver_type) == "transformers.Trainer"):
                continue
            if fits not in hooks:
                reached = module.reach()
                hooks[fits] = _lightning_hooks(reached) if fits else _hf_hooks(reached)
                fitted.update(reached if fits else ())
            engine = "lightning.Trainer" if fits else str(call.receiver_type)
            made = _loop(module, call.node, engine, call.function, module.segment(call.node), events(hooks[fits]))
            found.append((module, call.node, made))
    for module in modules:
        # A LightningModule whose fit is elsewhere: its training_step is a step all the same.
        for klass in module.klasses if module not in fitted else ():
            step = klass.methods.get("training_step")
            if klass.kind == "lightning.LightningModule" and step is not None:
                own = _class_hooks([klass], _STEP_HOOKS, False) + _class_hooks([klass], _EVALUATION_HOOKS, True)
                made = _loop(module, step.node, "lightning.Trainer", klass.name, "training_step", events(own))
                found.append((module, step.node, made))
    return found


def _loop(
    module: Module, node: ast.expr | ast.stmt, engine: str, function: str, iterates: str, events: Sequence[Event]
) -> Loop:
    return Loop(
        role=LoopRole.TRAINING,
        span=module.span(node),
        end_line=node.end_lineno or node.lineno,
        function=function,
        iterates=iterates,
        iterable_type=None,
        targets=(),
        events=events,
        parents=(),
        engine=engine,
    )


def _class_hooks(klasses: Sequence[ClassSymbol], names: Sequence[str], evaluation: bool) -> Hooks:
    hooks = []
    for klass in klasses:
        for name in names:
            if name in klass.methods:
                hooks.append((klass.methods[name], evaluation))
    return tuple(hooks)


def _lightning_hooks(modules: Sequence[Module]) -> Hooks:
    klasses = [k for module in modules for k in module.klasses if (k.kind or "").startswith("lightning.")]
    return _class_hooks(klasses, _STEP_HOOKS, False) + _class_hooks(klasses, _EVALUATION_HOOKS, True)


def _hf_hooks(modules: Sequence[Module]) -> Hooks:
    every = [klass for module in modules for klass in module.klasses]
    klasses = [k for k in every if kind_of(k.kind) == "transformers.Trainer" or "Callback" in (k.kind or "")]
    plain = [
        (function, True)
        for module in modules
        for function in module.functions
        if function.short in _HF_EVALUATION and function.klass is None
    ]
    return _class_hooks(klasses, _HF_STEP, False) + _class_hooks(klasses, _HF_EVALUATION, True) + tuple(plain)
