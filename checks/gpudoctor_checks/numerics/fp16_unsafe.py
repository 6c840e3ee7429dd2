"""NUM006: training in fp16 without what keeps it from overflowing or underflowing."""

import ast
from collections.abc import Iterator, Sequence

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.control_flow import bound_to, steady, switched_off
from gpudoctor.analysis.source.declared_settings import Setup
from gpudoctor.analysis.source.pretrained_models import family
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_places import line_at
from gpudoctor.analysis.source.training_arguments import training_arguments
from gpudoctor.lang import say
from gpudoctor.model import Confidence, Cost, Facts, Finding, Patient, Reads, Severity, Threshold, Whose
from gpudoctor.model.evidence import Setting, SourceSpan
from gpudoctor.model.signs.source import Call, Event, Known, Loop, Script, Source, Unknown
from gpudoctor.text import percent
from gpudoctor_checks.run_check import RunCheck

HALF = frozenset({"float16", "half", "fp16"})
OTHER_SCALERS = ("standardscaler", "minmaxscaler", "robustscaler", "maxabsscaler", "temperaturescaler")
"""Classes of scikit-learn and the like: no gradient scalers."""

ENGINES = ("deepspeed", "accelerate", "lightning", "fabric", "apex", "colossalai", "megatron", "composer", "ignite")
"""Libraries that scale the loss themselves."""

BACKWARD = frozenset({"torch.Tensor.backward", "?.backward"})
STEP = frozenset({"torch.optim.Optimizer.step", "?.step"})


class Fp16Unsafe(RunCheck):
    """Training runs in fp16 without a loss scaler, or with a model that fp16 overflows.

    What it finds:
        - Fp16 autocast without a GradScaler.
        - Fp16 with T5, Gemma and other models whose activations leave its range. A note: fp16 with models that
          were trained in bf16.
    Why it hurts:
        fp16 ends at 65,504 and loses gradients below 6e-8. Without scaling small gradients become zero and the
        model stops learning. Adam's epsilon of 1e-8 is zero in fp16, so the first step may divide by zero.
        Activations above the range turn into Inf and the loss into NaN.
    How it knows:
        It follows autocast, scaler, backward and step through the training loop, and reads dtypes and switches
        of calls and configs. Engines that scale by themselves (DeepSpeed, accelerate, Lightning) are not
        reported. From a job's log: the messages that name it, in the exception or line that came first.
    False alarms:
        Weights kept in fp16 on purpose with an optimizer that keeps its own float32 copy.
    Remedies:
        Use bf16, which has float32's range, on cards from Ampere on; elsewhere use autocast with a GradScaler
        and float32 weights.
    References:
        - https://docs.pytorch.org/docs/stable/notes/amp_examples.html
    """

    code = "NUM006"
    judges = "precision"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.RECORDING, Reads.LOG})
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold(
            "scale_collapsed",
            1.0,
            "1",
            "NVIDIA/apex#318: a scale below 1 no longer protects the gradients",
            "A loss scale that ends below this in a recorded run has collapsed.",
        ),
        Threshold(
            "skipped_share",
            0.1,
            "1",
            "GradScaler doubles its scale every 2,000 steps, and skips one step each time",
            "A scaler that skipped this share of a recorded run's steps is in trouble.",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:  # noqa: ARG002
        readings = of_run.numerics(run.lead.process, "scaler")
        yield from self._collapsed(run, readings)
        scaled = bool(readings) or run.lead.known("scale")
        yield from (item for item in suspected if not (scaled and item.detail_of(Facts).cure == "autocast"))

    def _collapsed(self, run: Run, readings: "Sequence[of_run.Record]") -> Iterator[Finding]:
        """A scaler whose scale falls and falls, or that skips steps all the time."""
        last = readings[-1] if readings else None
        if last is None:
            return
        scale, skipped = float(last.get("scale") or 0.0), int(last.get("skipped") or 0)
        share = skipped / max(1, int(last.get("step") or 0) + 1)
        if scale >= self.limit("scale_collapsed") and share <= self.limit("skipped_share"):
            return
        yield self.finding(
            say(
                "The loss scale ended at {scale:g} and {skipped} steps were skipped ({share}): the "
                "gradients overflow in fp16 at any scale.",
                scale=scale,
                skipped=skipped,
                share=percent(share),
            ),
            evidence=(run.measured("loss_scale", scale), run.measured("steps_skipped", skipped, "{steps}")),
            confidence=Confidence.CONFIRMED,
            cost=Cost(step_share=min(0.99, share), whose=Whose.STEPS),
            detail=Facts(cure="collapsed"),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        yield from self._in_loops(patient.source_and_configs[0])
        for setup in training_arguments(patient):
            yield from self._model(setup)

    def _in_loops(self, source: Source) -> Iterator[Finding]:
        roots = {name.split(".", 1)[0] for script in source.scripts for name in script.imports.values()}
        sharded = any("fsdp" in name.lower() for script in source.scripts for name in script.imports)
        if roots & set(ENGINES) or sharded or _has_scaler(source):
            return
        for _, loop in source.training_loops:
            events = [event for event in loop.events if steady(event)] if loop.engine is None else []
            called = {event.call.name for event in events if event.call is not None}
            if called & BACKWARD and called & STEP:
                yield from self._autocast(source, loop, events)

    def _autocast(self, source: Source, loop: Loop, events: list[Event]) -> Iterator[Finding]:
        entered = [
            item.context_expr
            for event in events
            if isinstance(event.node, ast.With | ast.AsyncWith) and not event.no_grad
            for item in event.node.items
        ]
        nodes = {id(node) for node in entered}
        names = {ast.unparse(node) for node in entered if isinstance(node, ast.Name | ast.Attribute)}
        for script in source.scripts:
            for call in script.calls_to("torch.autocast", "torch.cuda.amp.autocast"):
                used = id(call.node) in nodes or bound_to(script, call.node) in names - {""}
                if used and _is_half(call) and not switched_off(source, call):
                    yield self._found(
                        say(
                            "fp16 autocast in a training loop ({place}) without a GradScaler.",
                            place=line_at(loop.span, call.span),
                        ),
                        (call.span, loop.span),
                        cure="autocast",
                    )
                    return

    def _model(self, setup: Setup) -> Iterator[Finding]:
        """fp16 with a model that it overflows, or that was trained in bf16."""
        fp16, model = setup.on("fp16"), setup.get("model_name_or_path", "base_model")
        if fp16 is None or setup.on("bf16") is not None:
            return
        name, place = (str(model.value), model.place) if model is not None else _loaded(setup.script)
        known = family(name) if name else None
        if known is None or not known.fp16 or place is None:
            return
        hurts = known.fp16 == "overflows"
        text = say("has activations outside the range of fp16") if hurts else say("was trained in bf16")
        yield self._found(
            say("fp16 is on, and {model} ({family}) {why}.", model=name, family=known.name, why=text),
            (fp16.place, place),
            severity=Severity.WARNING if hurts else Severity.NOTE,
            cure="bf16",
        )

    def _found(
        self,
        message: str,
        places: tuple[SourceSpan | Setting, ...],
        *,
        severity: Severity = Severity.WARNING,
        cure: str,
    ) -> Finding:
        return self.finding(
            message,
            evidence=tuple(dict.fromkeys(places)),
            severity=severity,
            subject=f"{places[0].path}:{places[0].line}",
            detail=Facts(cure=cure),
        )


@once
def _has_scaler(source: Source) -> bool:
    """Whether anything in the program is called a scaler, and is none of scikit-learn's."""
    for script in source.scripts:
        names = [node.id for node in nodes(script, ast.Name)]
        names += [node.attr for node in nodes(script, ast.Attribute)]
        names += [node.name for node in nodes(script, ast.alias)]
        if any("scaler" in name.lower() and not name.lower().endswith(OTHER_SCALERS) for name in names):
            return True
    return False


def _is_half(call: Call) -> bool:
    """Whether an autocast is known to run in fp16, on a GPU, when it runs."""
    plain = call.name == "torch.autocast"
    device = call.argument("device_type", 0) if plain else None
    if "enabled" in call.keywords or (plain and not (isinstance(device, Known) and device.value == "cuda")):
        return False
    dtype = call.argument("dtype", 1)
    # the default is fp16 on CUDA
    return dtype is None or (isinstance(dtype, Unknown) and dtype.text.rpartition(".")[2] in HALF)


def _loaded(script: Script | None) -> tuple[str, SourceSpan | None]:
    """The only pretrained model that a script names, with its place."""
    calls = script.calls if script is not None else ()
    models = [call for call in calls if call.method == "from_pretrained" and "Model" in call.name]
    named = [(call.argument("", 0), call.span) for call in models]
    loads = {str(value.value): span for value, span in named if isinstance(value, Known)}
    return next(iter(loads.items())) if len(loads) == 1 else ("", None)
