"""From a script to the job that it trains: the pretrained model, its adapters and quantisation.

Only what one can read is told. Frozen parts, several models or adapters of unknown kinds make the memory a
guess, so such scripts have no job.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.lang import SpokenError
from gpudoctor.model.signs.source import Known, LoopRole
from gpudoctor.vitals.memory.from_config import ATTENTION, DTYPES, DeclaredJob, targets_of

if TYPE_CHECKING:
    from gpudoctor.model.signs.source import Call, Script, Source, Value

_NO_MODELS = ("Tokenizer", "TokenizerFast", "Processor", "Extractor", "Config")
_HEADS = ("ForCausalLM", "LMHeadModel", "ForSeq2SeqLM", "ForMaskedLM", "ForImageClassification")
"""Endings of classes whose head and loss the estimate counts."""
_OTHER_TUNERS = frozenset(
    {
        "PrefixTuningConfig",
        "PromptTuningConfig",
        "PromptEncoderConfig",
        "IA3Config",
        "AdaLoraConfig",
        "LoHaConfig",
        "LoKrConfig",
        "OFTConfig",
        "BOFTConfig",
        "VeraConfig",
        "LNTuningConfig",
    }
)


_OTHER_TRAINERS = frozenset(
    {
        "DPOTrainer",
        "ORPOTrainer",
        "KTOTrainer",
        "CPOTrainer",
        "PPOTrainer",
        "GRPOTrainer",
        "RLOOTrainer",
        "RewardTrainer",
        "BCOTrainer",
        "GKDTrainer",
        "OnlineDPOTrainer",
        "XPOTrainer",
        "NashMDTrainer",
    }
)
"""Trainers with pairs of rows, a second model, or generation between steps."""


class Undeclared(SpokenError):
    """Why a script's memory cannot be told, as a clause."""


def read_script(source: "Source", told: DeclaredJob) -> None:
    """Add what the scripts say of model, adapters, quantisation and checkpointing. Raises `Undeclared`."""
    if not any(loop.role is LoopRole.TRAINING for script in source.scripts for loop in script.loops):
        raise Undeclared("no script trains")
    script, load = _the_model(source)
    _refuse_the_unknown(source)
    _model(script, load, told)
    bits = _bits(source, load, told)
    _adapters(source, bits, told)
    _calls(source, told)


def _loads(source: "Source") -> Iterator[tuple["Script", "Call"]]:
    """Calls that load a transformers model in the ordinary course."""
    for script in source.scripts:
        for call in script.calls:
            loads = call.method in {"from_pretrained", "from_config"} and call.name.startswith("transformers.")
            if loads and not call.name.split(".")[-2].endswith(_NO_MODELS) and not switched_off(source, call):
                if not call.name.split(".")[-2].endswith(_HEADS):
                    raise Undeclared(
                        "{name} has a different head from the models that estimate supports", name=call.name
                    )
                yield script, call


def _the_model(source: "Source") -> tuple["Script", "Call"]:
    found = list(_loads(source))
    if not found:
        raise Undeclared("no script loads a model of transformers")
    if len(found) > 1:
        raise Undeclared("{found} models are loaded, and gpudoctor cannot tell which one is trained", found=len(found))
    return found[0]


def _refuse_the_unknown(source: "Source") -> None:
    for script in source.scripts:
        for call in script.calls:
            if call.method in _OTHER_TUNERS or call.method in _OTHER_TRAINERS:
                raise Undeclared("{method} is not a method that estimate supports", method=call.method)
            if call.method == "requires_grad_" and not switched_off(source, call):
                raise Undeclared("{path}:{line} freezes a part of the model", path=script.path, line=call.span.line)
        if ".requires_grad = False" in script.text or "requires_grad=False" in script.text:
            raise Undeclared("{path} freezes a part of the model", path=script.path)


def _model(script: "Script", load: "Call", told: DeclaredJob) -> None:
    name = load.argument("pretrained_model_name_or_path", 0)
    if not isinstance(name, Known) or not isinstance(name.value, str):
        if told.model is None:
            raise Undeclared("{path}:{line} chooses its model at run time", path=script.path, line=load.span.line)
    else:
        told.model = name.value
        told.places["model"] = load.span
    for keyword in ("torch_dtype", "dtype"):
        dtype = DTYPES.get(_word(load.keywords.get(keyword)))
        if dtype:
            told.tell("dtype", dtype, load.span)
    if "dtype" not in told.fields:
        told.fields["dtype"] = "fp32"
        told.guessed.add("dtype")
    attention = ATTENTION.get(_word(load.keywords.get("attn_implementation")))
    if attention:
        told.fields["attention"] = attention


def _word(value: "Value | None") -> str:
    """`torch.bfloat16`, `"bfloat16"` and `bfloat16` alike; "" for none."""
    if value is None:
        return ""
    text = str(value.value) if isinstance(value, Known) else value.text
    return text.strip("\"'").rpartition(".")[2].lower()


def _on(value: "Value | None") -> bool:
    return isinstance(value, Known) and value.value is True


def _bits(source: "Source", load: "Call", told: DeclaredJob) -> int | None:
    """4 or 8 where the base is quantized by bitsandbytes."""
    configs = [
        call for script in source.scripts for call in script.calls
        if call.method == "BitsAndBytesConfig" and not switched_off(source, call)
    ]  # fmt: skip
    given = load.keywords.get("quantization_config")
    if given is not None and not configs:
        raise Undeclared("gpudoctor cannot tell how the model is quantized")
    if len(configs) > 1:
        raise Undeclared("several quantisation configs")
    calls = [load, *(configs if given is not None or load.open_ended else [])]
    for call in calls:
        if _on(call.keywords.get("load_in_4bit")):
            quant = _word(call.keywords.get("bnb_4bit_quant_type"))
            told.fields["quant"] = quant if quant in {"nf4", "fp4"} else "fp4"
            told.fields["double_quant"] = _on(call.keywords.get("bnb_4bit_use_double_quant"))
            return 4
        if _on(call.keywords.get("load_in_8bit")):
            return 8
    return None


def _adapters(source: "Source", bits: int | None, told: DeclaredJob) -> None:
    """Full, LoRA, QLoRA."""
    configs = [
        call for script in source.scripts for call in script.calls
        if call.method == "LoraConfig" and not switched_off(source, call)
    ]  # fmt: skip
    if not configs:
        if bits is not None:
            raise Undeclared("a quantized base, and gpudoctor found no adapters")
        told.tell("method", "full", None)
        return
    call = configs[0]
    told.tell("method", {4: "qlora", 8: "int8-lora"}.get(bits or 0, "lora"), call.span)
    rank = call.argument("r", None)
    told.fields["lora_rank"] = rank.value if isinstance(rank, Known) and isinstance(rank.value, int) else 8
    if rank is not None and not isinstance(rank, Known):
        told.guessed.add("lora_rank")
    dropout = call.keywords.get("lora_dropout")
    if isinstance(dropout, Known) and isinstance(dropout.value, int | float):
        told.fields["lora_dropout"] = float(dropout.value)
    told.fields["lora_dora"] = _on(call.keywords.get("use_dora"))
    names = call.keywords.get("target_modules")
    value = names.value if isinstance(names, Known) else None
    if isinstance(value, str):
        value = (value,)
    if isinstance(value, tuple) and value:
        told.fields["lora_targets"] = targets_of(value, told)
    else:
        told.fields["lora_targets"] = ("q", "v")  # PEFT's choice for most decoders, and the least memory
        told.guessed.add("lora_targets")
    if bits is not None:
        called = {call.method for script in source.scripts for call in script.calls}
        told.fields["kbit_prepare"] = bool({"prepare_model_for_kbit_training", "SFTTrainer"} & called)


def _calls(source: "Source", told: DeclaredJob) -> None:
    """Checkpointing, and the tokenizer's length."""
    lengths: list[int] = []
    for script in source.scripts:
        for call in script.calls:
            if switched_off(source, call):
                continue
            prepares = call.method == "prepare_model_for_kbit_training"
            wanted = call.keywords.get("use_gradient_checkpointing", Known(value=True))
            if call.method == "gradient_checkpointing_enable" or (prepares and _on(wanted)):
                told.tell("checkpointing", "layer", call.span)
            longest = call.keywords.get("max_length") or call.keywords.get("max_seq_length")
            tokenizes = bool({"truncation", "padding", "return_tensors"} & call.keywords.keys())
            if isinstance(longest, Known) and isinstance(longest.value, int) and tokenizes:
                lengths.append(longest.value)
    if lengths and "seq" not in told.fields:
        told.fields["seq"] = max(lengths)
    loops = [loop for script in source.scripts for loop in script.loops if loop.role is LoopRole.TRAINING]
    if any(loop.engine is None for loop in loops):  # a loop of one's own has no argument that switches it on
        told.fields.setdefault("checkpointing", "none")
