"""The pretrained models that a script trains with a Trainer, under adapters or not, and their families."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.built_classes import built
from gpudoctor.analysis.source.control_flow import bound_to, switched_off
from gpudoctor.analysis.source.syntax import is_attribute, keyword_value, nodes, words
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Script, Source

TRAINERS = words("Trainer Seq2SeqTrainer SFTTrainer DPOTrainer ORPOTrainer KTOTrainer CPOTrainer")
"""Engines that take a model and train it."""

_ROOTS = frozenset({"transformers", "trl", "unsloth"})
_ADAPTERS = ("peft.", "unsloth.", "adapters.", "loralib.")
_ADAPTING = ("add_adapter", "get_peft_model", "load_adapter", "prepare_model_for_kbit_training")


@once
def trainers(source: Source) -> tuple[tuple[Script, Call], ...]:
    """Calls that build a Trainer of transformers or TRL, or of a subclass of the user's."""
    return tuple(
        (script, call)
        for script in source.scripts
        for call in script.calls
        if call.method[:1].isupper() and not call.receiver.startswith(("self", "super"))
        if built(call).of(_ROOTS, TRAINERS)
    )


def adapted(source: Source) -> bool:
    """Whether any adapter library or adapter method is used: then the base model is not what is trained."""
    for script in source.scripts:
        if any(name.startswith(_ADAPTERS) or name in {"peft", "unsloth"} for name in script.imports.values()):
            return True
        for call in script.calls:
            if call.method in _ADAPTING or "peft_config" in call.keywords:
                return True
    return False


def trained_models(source: Source) -> Iterator[tuple[Script, Call]]:
    """`from_pretrained` calls whose model a Trainer gets as it is: not cast, wrapped or adapted since."""
    if adapted(source):
        return
    for script, trainer in trainers(source):
        name = model_name(trainer)
        if not name:
            continue
        loads = [call for call in script.calls_to(".from_pretrained") if bound_to(script, call.node) == name]
        if len(loads) == 1 and not switched_off(source, loads[0]) and not _cast(script, name):
            yield script, loads[0]


def model_name(trainer: Call) -> str:
    """The name of the model that a Trainer is given, "" where it is no name."""
    node = keyword_value(trainer.node, "model")
    if node is None and trainer.node.args:
        node = trainer.node.args[0]
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _cast(script: Script, name: str) -> bool:
    """Whether the name is bound again, or its parameters are cast."""
    for call in script.calls:
        if call.receiver == name and call.method in {"float", "bfloat16", "half", "to", "double"}:
            return True
    return any(any(is_attribute(target, "data") for target in node.targets) for node in nodes(script, ast.Assign))


@frozen
class Family:
    """One family."""

    name: str
    """As people call it."""
    pattern: str
    """A regular expression for the last part of a hub name, in lower case."""
    linear: frozenset[str]
    """Names of its linear layers that an adapter may target; empty where nobody here looked."""
    fp16: str = ""
    """`overflows` when fp16 is known to overflow in it, `bf16` when it was trained in bf16; else ""."""


_LLAMA = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"
_BERT = "query key value dense"


def _family(name: str, pattern: str, linear: str = "", fp16: str = "") -> Family:
    return Family(name=name, pattern=pattern, linear=frozenset(linear.split()), fp16=fp16)


FAMILIES = (
    _family("T5", r"(^|[-_])(m|by|um|long|flan-|code)?t5([-_]|p|$)|(^|[-_])ul2",
            "q k v o wi wi_0 wi_1 wo", "overflows"),
    _family("Pegasus", r"pegasus", "q_proj k_proj v_proj out_proj fc1 fc2", "overflows"),
    _family("Gemma", r"(^|[-_])(code)?gemma", _LLAMA, "overflows"),
    _family("Mixtral", r"mixtral", "q_proj k_proj v_proj o_proj w1 w2 w3 gate gate_up_proj down_proj", "bf16"),
    _family("Phi-3", r"phi-?(3|3\.5|4)([-_]|$)", "qkv_proj o_proj gate_up_proj down_proj", "bf16"),
    _family("Phi-2", r"(^|[-_])phi-?(1|1_5|1\.5|2)$", "q_proj k_proj v_proj dense fc1 fc2"),
    _family("Qwen (first)", r"(^|[-_])qwen-(1_8b|7b|14b|72b)", "c_attn c_proj w1 w2", "bf16"),
    _family("Qwen", r"(^|[-_])qwen(1\.5|2|2\.5|3)-([01]\.[5678]b|3b|4b|7b|8b|14b|32b|72b)", _LLAMA, "bf16"),
    _family("Mistral", r"(^|[-_])mistral-7b", _LLAMA, "bf16"),
    _family("Llama 3", r"llama-?3(\.[123])?[-_](1b|3b|8b|70b|405b)", _LLAMA, "bf16"),
    _family("Llama", r"(^|[-_])(open_?|code|tiny)?llama(-?2)?([-_]|$)|^llama-|vicuna|alpaca", _LLAMA),
    _family("OPT", r"^opt-", "q_proj k_proj v_proj out_proj fc1 fc2"),
    _family("GPT-2", r"^(distil)?gpt2([-_]|$)", "c_attn c_proj c_fc"),
    _family("GPT-J", r"^gpt-j", "q_proj k_proj v_proj out_proj fc_in fc_out"),
    _family("GPT-NeoX", r"^gpt-neox|^pythia|stablelm-(base|tuned)|dolly-v2|redpajama-incite",
            "query_key_value dense dense_h_to_4h dense_4h_to_h"),
    _family("BLOOM", r"^bloomz?([-_]|$)", "query_key_value dense dense_h_to_4h dense_4h_to_h"),
    _family("Falcon", r"^falcon-(rw-)?(1b|7b|40b|180b)",
            "query_key_value dense dense_h_to_4h dense_4h_to_h", "bf16"),
    _family("ChatGLM", r"^chatglm|^glm-4-9b", "query_key_value dense dense_h_to_4h dense_4h_to_h"),
    _family("MPT", r"^mpt-", "Wqkv out_proj up_proj down_proj"),
    _family("InternLM2", r"^internlm2", "wqkv wo w1 w2 w3"),
    _family("Baichuan", r"^baichuan", "W_pack o_proj gate_proj up_proj down_proj"),
    _family("DeBERTa", r"^(m)?deberta-v[23]", "query_proj key_proj value_proj dense"),
    _family("BERT", r"^(distil)?(ro|xlm-ro|al)?bert(a)?([-_]|$)",
            _BERT + " q_lin k_lin v_lin out_lin lin1 lin2 ffn ffn_output"),
    _family("ViT", r"^(vit|deit|beit)-", _BERT),
    _family("Whisper", r"^(distil-)?whisper", "q_proj k_proj v_proj out_proj fc1 fc2"),
)  # fmt: skip
"""Most telling first. Layer names: PEFT's table of targets and the module names of transformers 5.23."""

COMMON = frozenset(
    {"lm_head", "embed_tokens", "embed_in", "embed_out", "wte", "wpe", "word_embeddings", "score", "classifier",
     "embeddings", "shared", "norm", "v_head", "embed_positions", "output", "pooler", "linear", "proj"}
)  # fmt: skip
"""Layers outside the blocks that any family may have, or that a head brings along."""


_OTHERS = re.compile(r"vision|[-_]vl([-_]|$)|llava|audio|omni|multimodal|llama-?4|moe|mamba|moonlight|prune|guard")
"""Words of models that share a family's name and not its layers."""


def family(name: str) -> Family | None:
    """The family that a hub name or a path tells; None for names that say nothing."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    if _OTHERS.search(last):
        return None
    return next((item for item in FAMILIES if re.search(item.pattern, last)), None)
