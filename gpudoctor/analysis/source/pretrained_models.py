"""The pretrained models that a script trains with a Trainer, and whether adapters stand between.

A view of the source sign for checks of precision, quantisation and adapters.
"""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.built_classes import built
from gpudoctor.analysis.source.control_flow import bound_to, switched_off
from gpudoctor.analysis.source.syntax import is_attribute, keyword_value, nodes
from gpudoctor.model.signs.source import Call, Script, Source

TRAINERS = frozenset(
    {"Trainer", "Seq2SeqTrainer", "SFTTrainer", "DPOTrainer", "ORPOTrainer", "KTOTrainer", "CPOTrainer"}
)
"""Engines that take a model and train it."""

_ROOTS = frozenset({"transformers", "trl", "unsloth"})
_ADAPTERS = ("peft.", "unsloth.", "adapters.", "loralib.")
_ADAPTING = ("add_adapter", "get_peft_model", "load_adapter", "prepare_model_for_kbit_training")


def trainers(source: Source) -> Iterator[tuple[Script, Call]]:
    """Calls that build a Trainer of transformers or TRL, or of a subclass of the user's."""
    for script in source.scripts:
        for call in script.calls:
            if not call.method[:1].isupper() or call.receiver.startswith(("self", "super")):
                continue
            if built(source, script, call).of(_ROOTS, TRAINERS):
                yield script, call


def adapted(source: Source) -> bool:
    """Whether any adapter library or adapter method is used: then the base model is not what is trained."""
    for script in source.scripts:
        if any(name.startswith(_ADAPTERS) or name in {"peft", "unsloth"} for name in script.imports.values()):
            return True
        for call in script.calls:
            if call.method in _ADAPTING or "peft_config" in call.keywords:
                return True
    return False


def trained_models(source: Source, *, adapters: bool = False) -> Iterator[tuple[Script, Call]]:
    """`from_pretrained` calls whose model is given to a Trainer as it is: not cast, wrapped or adapted since.

    With `adapters`, models under adapters are among them.
    """
    if not adapters and adapted(source):
        return
    for script, trainer in trainers(source):
        name = model_name(trainer)
        if not name:
            continue
        loads = [
            call for call in script.calls if call.method == "from_pretrained" and _binds(script, call, name)
        ]
        if len(loads) == 1 and not switched_off(source, loads[0]) and not _cast(script, name):
            yield script, loads[0]


def model_name(trainer: Call) -> str:
    """The name of the model that a Trainer is given, "" where it is no name."""
    node = keyword_value(trainer.node, "model")
    if node is None and trainer.node.args:
        node = trainer.node.args[0]
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _binds(script: Script, call: Call, name: str) -> bool:
    return bound_to(script, call.node) == name


def _cast(script: Script, name: str) -> bool:
    """Whether the name is bound again, or its parameters are cast."""
    for call in script.calls:
        if call.receiver == name and call.method in {"float", "bfloat16", "half", "to", "double"}:
            return True
    for node in nodes(script, ast.Assign):
        # `param.data = param.data.float()`
        if any(is_attribute(target, "data") for target in node.targets):
            return True
    return False
