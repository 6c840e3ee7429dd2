"""MEM010: the key-value cache is on while activations are checkpointed, or simply while training."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import bound_to, enclosing, steady, switched_off
from gpudoctor.analysis.source.pretrained_models import model_name, trainers
from gpudoctor.analysis.source.syntax import FunctionNode, is_attribute, nodes
from gpudoctor.analysis.source.training_arguments import argument_calls
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Finding,
    Patient,
    Reads,
    Setting,
    SourceSpan,
    TrackRecord,
)
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Call, Known, LoopRole, Script, Source

CHECKPOINTING = ("gradient_checkpointing_enable", "activation_checkpointing_enable")
KINDS = frozenset({ConfigKind.HUGGINGFACE, ConfigKind.AXOLOTL, ConfigKind.SECTIONS})
"""Kinds whose `use_cache` reaches the model; LLaMA-Factory's is for generation only."""


class CacheFlagConflict(Check):
    """The key-value cache of generation is on while the model trains.

    What it finds:
        `use_cache=True` (in `from_pretrained`, in the model's config, in a YAML) together with gradient
        checkpointing, and `model(..., use_cache=True)` in a training loop.
    Why it hurts:
        Training never reads the cache. It keeps the keys and values of every layer through the step, and
        checkpointing cannot free them. In each forward pass, transformers prints a warning and disables it.
        Your own models keep both.
    How it knows:
        It reads only a flag that is set explicitly. A model's default, which transformers handles itself, is
        not a finding. A flag that is set again after the training, for generation, is not a finding either.
    False alarms:
        A model whose own code ignores the flag in training mode.
    Remedies:
        Set `use_cache=False` for training; generation can turn it on again.
    References:
        - https://huggingface.co/docs/transformers/main_classes/model
        - https://huggingface.co/docs/transformers/kv_cache
    """

    code = Code("MEM010")
    name = "cache-flag-conflict"
    track_record = TrackRecord(right=0, wrong=1)
    reads = frozenset({Reads.SOURCE, Reads.CONFIG})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        for file in configs.files:
            yield from self._in_config(file)
        seen: set[tuple[str, int]] = set()
        for finding in (*self._in_loops(source), *self._flags(source)):
            span = finding.span
            if span is not None and (span.path, span.line) not in seen:
                seen.add((span.path, span.line))
                yield finding

    def _in_config(self, file: ConfigFile) -> Iterator[Finding]:
        if file.kind not in KINDS:
            return
        cache = next((item for item in file.meaning("use_cache") if item.value is True), None)
        saving = next((item for item in file.meaning("gradient_checkpointing") if item.value is True), None)
        if cache is not None and saving is not None:
            yield self._found(
                say("{key} and {other_key} are both on.", key=cache.entry.key, other_key=saving.entry.key),
                (cache.setting, saving.setting),
            )

    def _in_loops(self, source: Source) -> Iterator[Finding]:
        for _, loop in source.training_loops:
            if loop.role is not LoopRole.TRAINING or loop.engine is not None:
                continue
            for event in loop.events:
                call = event.call
                if call is None or event.no_grad or not steady(event) or not _on(call):
                    continue
                if call.method in {"__call__", "forward"}:
                    yield self._found(
                        say("The training forward pass keeps a key-value cache that is never read."),
                        (_place(source, call),),
                    )

    def _flags(self, source: Source) -> Iterator[Finding]:
        saving = _checkpointing(source)
        if saving is None:
            return
        trained = _trained(source)
        for script in source.scripts:
            for call in script.calls:
                loads = call.method in {"from_pretrained", "from_config"} and _on(call)
                if not loads or bound_to(script, call.node) not in trained:
                    continue
                if not switched_off(source, call) and not _switched_back(script, call.node):
                    yield self._found(
                        say("use_cache=True and gradient checkpointing are both on."),
                        (_place(source, call), saving),
                    )
            for node in _assignments(script):
                if _owner(node) in trained and _on_for_training(script, node):
                    yield self._found(
                        say("use_cache is switched on before the training, and gradient checkpointing is on."),
                        (script.span(node), saving),
                    )

    def _found(self, message: str, places: tuple[SourceSpan | Setting, ...]) -> Finding:
        return self.finding(
            message,
            evidence=places,
            confidence=Confidence.SUSPECTED,
            subject=f"{places[0].path}:{places[0].line}",
        )


def _on(call: Call) -> bool:
    value = call.keywords.get("use_cache")
    return isinstance(value, Known) and value.value is True and value.origin in {"literal", "constant"}


def _place(source: Source, call: Call) -> SourceSpan:
    """The argument, or the call when it stands in a `**kwargs`."""
    for script in source.scripts:
        if script.path == call.span.path:
            for keyword in call.node.keywords:
                if keyword.arg == "use_cache":
                    return script.span(keyword)
    return call.span


def _checkpointing(source: Source) -> SourceSpan | None:
    """Where gradient checkpointing is switched on in the ordinary course."""
    for script in source.scripts:
        for call in script.calls:
            if call.method in CHECKPOINTING and not switched_off(source, call):
                return call.span
    for script, call in argument_calls(source):
        value = call.keywords.get("gradient_checkpointing") or call.keywords.get("activation_checkpointing")
        if isinstance(value, Known) and value.value is True:
            keyword = next((k for k in call.node.keywords if "checkpointing" in str(k.arg)), None)
            return call.span if keyword is None else script.span(keyword)
    return None


def _trained(source: Source) -> set[str]:
    """Names of models that are trained here: given to a Trainer, or checkpointed themselves."""
    found = {model_name(trainer) for _, trainer in trainers(source)} - {""}
    for script in source.scripts:
        found |= {call.receiver for call in script.calls if call.method in CHECKPOINTING}
    return found


def _owner(node: ast.Assign) -> str:
    """`model` of `model.config.use_cache = True`."""
    return ast.unparse(node.targets[0]).removesuffix(".use_cache").removesuffix(".config")


def _assignments(script: Script, value: bool = True) -> Iterator[ast.Assign]:
    """`model.config.use_cache = True`."""
    for node in nodes(script, ast.Assign):
        if not isinstance(node.value, ast.Constant):
            continue
        if node.value.value is value and any(is_attribute(target, "use_cache") for target in node.targets):
            yield node


def _function(script: Script, node: ast.AST) -> ast.AST | None:
    return next(
        (item for item in enclosing(script, node) if isinstance(item, FunctionNode)),
        None,
    )


def _on_for_training(script: Script, node: ast.Assign) -> bool:
    """Whether the flag stands when the training starts: the training comes after it, with no False between."""
    home = _function(script, node)
    above = list(enclosing(script, node))
    if any(isinstance(item, ast.If | ast.Try) for item in above if not _is_main(item)):
        return False
    starts = [
        call.span.line
        for call in script.calls
        if call.method == "train" and call.receiver and call.name.split(".", 1)[0] in {"transformers", "trl"}
        and _function(script, call.node) is home
    ] + [
        loop.span.line
        for loop in script.loops
        if loop.role is LoopRole.TRAINING and loop.engine is None and _home(script, loop.span.line) is home
    ]  # fmt: skip
    after = [line for line in starts if line > node.lineno]
    if not after:
        return False
    return not any(node.lineno < other.lineno < min(after) for other in _assignments(script, value=False))


def _home(script: Script, line: int) -> ast.AST | None:
    """The innermost function around a line."""
    found: ast.AST | None = None
    for node in nodes(script, ast.FunctionDef, ast.AsyncFunctionDef):
        if node.lineno <= line <= (node.end_lineno or 0):
            found = node
    return found


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _switched_back(script: Script, node: ast.AST) -> bool:
    """Whether the flag is switched off again after the model is made."""
    return any(other.lineno > getattr(node, "lineno", 0) for other in _assignments(script, value=False))
