"""What a written program has to know of the installed transformers: found out in a child process, on no memory.

The request is the model (its shape, or the path of its config.json) and the job; the answer the class, its
configuration, the names of the blocks and of what gets adapters; or the sentence that says why not.
"""

from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.ask_child import answered
from gpudoctor.estimate.job import TrainingJob

_OWN = {"model_type", "transformers_version", "architectures", "dtype", "torch_dtype", "_name_or_path"}
"""Keys of a configuration that say nothing of the model."""
_ALWAYS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "max_position_embeddings",
)  # fmt: skip
"""What a reader wants to see of a model, default or not."""


def main() -> int:
    """Answer one request."""
    return answered(find)


def find(request: dict[str, Any]) -> dict[str, Any]:
    """The facts. Raises `UsageError` for what transformers cannot build."""
    import torch

    from gpudoctor.estimate.real.build import auto_class, blocks
    from gpudoctor.estimate.real.config import hf_config
    from gpudoctor.estimate.shapes import shape_of
    from gpudoctor.estimate.tables import stack

    shape, job = shape_of(request["shape"]), TrainingJob(**request["job"])
    config = hf_config(request.get("source") or shape)
    auto = auto_class(config)
    model, attention = _on_meta(torch, auto, config, job)
    found = blocks(model)
    if not found:
        raise UsageError(
            "{kind}: it has no list of blocks, so it cannot be put together here", kind=type(model).__name__
        )
    names = {id(module): name for name, module in model.named_modules()}
    newer = hasattr(model, "activation_checkpointing_enable")
    return {
        "auto": auto,
        "config_class": type(config).__name__,
        "config": _configuration(config),
        "attention": attention,
        # whether an encoder-decoder has to be told its first token
        "decoder_start": bool(getattr(config, "is_encoder_decoder", False))
        and getattr(config, "decoder_start_token_id", None) is None,
        "image": _image(config),
        "vocabulary": getattr(config, "vocab_size", None) or getattr(config, "num_labels", 0),
        "blocks": sorted({names[id(block)].rpartition(".")[0] for block in found}),
        "block_class": type(found[0]).__name__,
        "checkpointing": "activation_checkpointing_enable" if newer else "gradient_checkpointing_enable",
        "reentrant": stack(job.stack).reentrant,
        **(_adapters(model, job) if job.adapted else {}),
    }


def _on_meta(torch: Any, auto: str, config: Any, job: TrainingJob) -> tuple[Any, str]:
    """The model without memory, and the attention that it takes: not every class has SDPA."""
    import transformers

    asked = {"flash": "flash_attention_2"}.get(job.attention, job.attention)
    tried: list[str] = [asked] if asked != "flash_attention_2" else ["eager"]  # its kernels are not asked for here
    tried += ["eager"] if asked == "sdpa" else []
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[job.dtype]
    for attention in tried:
        try:
            with torch.device("meta"):
                model = getattr(transformers, auto).from_config(config, dtype=dtype, attn_implementation=attention)
        except (ValueError, ImportError) as error:
            said = str(error)
            continue
        return model, asked if asked == "flash_attention_2" else attention
    raise UsageError("{kind}: transformers cannot build it: {said}", kind=type(config).__name__, said=said)


def _configuration(config: Any) -> dict[str, Any]:
    """What gives this configuration again: its widths and counts, and what differs from the defaults."""
    whole, usual = _plain(config), _plain(type(config)())
    named = {config.attribute_map.get(name, name) for name in _ALWAYS}
    few = {key: value for key, value in whole.items() if key in named or usual.get(key, usual) != value}
    for key in [key for key, value in few.items() if isinstance(value, (list, dict))]:
        without = {name: value for name, value in few.items() if name != key}
        few = without if _same(config, without) else few
    found = few if _same(config, few) else whole
    return {**found, "use_cache": False} if "use_cache" in whole else found


def _same(config: Any, values: dict[str, Any]) -> bool:
    """Whether these values give the configuration again."""
    return _plain(type(config)(**values)) == _plain(config)


def _plain(config: Any) -> dict[str, Any]:
    return {key: value for key, value in config.to_dict().items() if key not in _OWN}


def _image(config: Any) -> list[int] | None:
    """Channels, height and width of an image; None for a model of tokens."""
    if not hasattr(config, "image_size") or hasattr(config, "vocab_size"):
        return None
    size = config.image_size if isinstance(config.image_size, (tuple, list)) else (config.image_size,) * 2
    return [int(config.num_channels), *map(int, size)]


def _adapters(model: Any, job: TrainingJob) -> dict[str, Any]:
    """Where adapters go, in the fewest names that say the same."""
    from gpudoctor.estimate.real.build import targets, whole_modules

    wanted = targets(model, job)
    if not isinstance(wanted, str):
        short = sorted({name.rpartition(".")[2] for name in wanted})
        meant = {name for name, _ in model.named_modules() if name.rpartition(".")[2] in short}
        wanted = short if meant == set(wanted) else wanted
    return {
        "targets": wanted,
        "whole": whole_modules(model) if job.train_embeddings else None,
        "transposed": any(type(module).__name__ == "Conv1D" for module in model.modules()),
    }
