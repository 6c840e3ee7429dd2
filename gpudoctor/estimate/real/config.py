"""From a shape, a preset or a config.json to the configuration of a Hugging Face class, and its block kinds."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.estimate.tables import read_table
from gpudoctor.model.records import frozen

# Which kinds of blocks a model has in a row, and how few of them tell about all.


@frozen
class Pattern:
    """A row of blocks: some at the start, then a group that repeats, whole or cut off at the end."""

    layers: int
    prefix: int
    """Blocks at the start that do not repeat (dense ones before mixtures of experts)."""
    period: int
    """Blocks in the group that repeats."""

    @property
    def start(self) -> int:
        """Blocks at the start that are told apart by their place: those before the groups, as many as the last
        group lacks, and a group."""
        return self.prefix + (self.layers - self.prefix) % self.period + self.period

    def depths(self) -> tuple[int, ...]:
        """Two depths, a group apart, whose last block is of the kind of the whole model's; all of the model where
        it has no more.

        The least has two groups, so that those at either end are there.
        """
        least = self.start + self.period
        return (least, least + self.period) if least + self.period < self.layers else (self.layers,)


def pattern(kinds: Sequence[Hashable]) -> Pattern:
    """The shortest repeating group, after the shortest start, of a row of kinds."""
    count = len(kinds)
    best = Pattern(layers=count, prefix=0, period=max(count, 1))
    for prefix in range(count):
        for period in range(1, (count - prefix) // 2 + 1):
            if all(kinds[at] == kinds[at + period] for at in range(prefix, count - period)):
                if prefix + period < best.prefix + best.period:
                    best = Pattern(layers=count, prefix=prefix, period=period)
                break
    return best


Source = ModelShape | Mapping[str, Any]
"""A model by its shape, or by the object of a config.json."""

NEEDS = "tracing needs torch, transformers and peft: pip install torch transformers peft"

_SLOTS: dict[str, list[str]] = read_table("names.json")["slots"]
"""A shape's field, and the names that configurations have for it: every one that is there is set."""
_MLP = ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size")
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")
_SHARED = ("shared_expert_intermediate_size", "shared_intermediate_size")


def hf_config(source: Source, layers: int | None = None) -> Any:
    """The `PretrainedConfig` of a model, with `layers` blocks where given. Raises `UsageError`."""
    if isinstance(source, ModelShape):
        return _from_shape(source, layers)
    return _from_mapping(source, "config", layers)


def _from_mapping(config: Mapping[str, Any], name: str, layers: int | None) -> Any:
    """The configuration written in a config.json; of a model of several inputs, its language model's."""
    kind = config.get("model_type")
    values = {key: value for key, value in config.items() if key not in {"quantization_config", "auto_map"}}
    made = _make(str(kind), values, name)
    text = made.get_text_config() if hasattr(made, "get_text_config") else made
    if text is not made and not getattr(made, "is_encoder_decoder", False):
        made = text
    return made if layers is None else _shortened(made, layers)


def _make(kind: str, values: Mapping[str, Any], name: str) -> Any:
    """A configuration of this `model_type`; raises `UsageError` where transformers has none or refuses it."""
    try:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    except ImportError:
        raise IncompleteError(NEEDS) from None
    if kind not in CONFIG_MAPPING:
        raise UsageError(
            "{name}: model_type {kind!r} is not an architecture of the installed transformers. "
            "Install a newer release (pip install -U transformers), or remove --trace", name=name, kind=kind,
        )  # fmt: skip
    try:
        return CONFIG_MAPPING[kind](**{key: value for key, value in values.items() if key != "model_type"})
    except Exception as error:  # noqa: BLE001 - a configuration class may raise anything on absurd values
        raise UsageError("{name}: transformers refuses this configuration: {error}", name=name, error=error) from None


def _from_shape(shape: ModelShape, layers: int | None) -> Any:
    """The configuration that gives this shape's tensors."""
    plain = _make(shape.family, {}, shape.name)
    values = _general(shape, plain) | _particular(shape)
    made = _make(shape.family, values, shape.name)
    return made if layers is None else _shortened(made, layers)


def _general(shape: ModelShape, plain: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field, names in _SLOTS.items():
        for name in names:
            held = getattr(type(plain), name, None)
            computed = isinstance(held, property) and held.fset is None  # from others: Falcon's head width
            if hasattr(plain, name) and not computed:
                values[name] = getattr(shape, field)
    routed = bool(shape.experts) and "moe_intermediate_size" not in values
    width = shape.expert_mlp if routed else shape.mlp
    values |= {name: width for name in _MLP if hasattr(plain, name) and width}
    values |= {name: shape.max_positions for name in _POSITIONS if hasattr(plain, name) and shape.max_positions}
    values |= {name: shape.shared_mlp for name in _SHARED if hasattr(plain, name)}
    if hasattr(plain, "sliding_window"):
        values["sliding_window"] = shape.window
    for name, part in (("attention_bias", "qkv"), ("mlp_bias", "mlp")):
        if hasattr(plain, name):
            values[name] = part in shape.biases
    # token ids of the published vocabulary may lie outside a smaller one
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        token = getattr(plain, name, None)
        if isinstance(token, int) and token >= shape.vocab:
            values[name] = 0
    return values


def _particular(shape: ModelShape) -> dict[str, Any]:
    """What single architectures call by names of their own."""
    name, latent = shape.family, shape.latent
    values: dict[str, Any] = {}
    if name in {"t5", "mt5"}:
        values = {"num_layers": shape.layers, "num_decoder_layers": shape.layers,
                  "feed_forward_proj": "gated-gelu" if shape.gated else "relu"}  # fmt: skip
    elif name == "falcon":
        values = {"new_decoder_architecture": shape.block_norms == 2, "multi_query": shape.kv_heads == 1}
        values["ffn_hidden_size"] = shape.mlp
    elif name == "gpt_bigcode":
        values = {"multi_query": shape.kv_heads == 1}
    elif name == "mpt":
        values = {"d_model": shape.hidden, "n_heads": shape.heads, "n_layers": shape.layers,
                  "expansion_ratio": shape.mlp // shape.hidden, "no_bias": not shape.biases}  # fmt: skip
    elif name == "opt":
        values = {"word_embed_proj_dim": shape.hidden, "max_position_embeddings": shape.max_positions}
    elif name == "roberta":
        values = {"type_vocab_size": dict(shape.extras).get("token types", shape.hidden) // shape.hidden}
    elif name == "vit":
        # from the parameters of the patch convolution: 3 x p x p + 1 for each width
        convolution = dict(shape.extras).get("patch convolution", 769 * shape.hidden)
        patch = round(((convolution // shape.hidden - 1) / 3) ** 0.5)
        side = round((shape.max_positions - 1) ** 0.5)
        values = {"patch_size": patch, "image_size": patch * side, "num_labels": shape.vocab}
    elif name == "stablelm":
        values = {"use_qkv_bias": "qkv" in shape.biases, "use_parallel_residual": shape.block_norms == 1}
    elif name in {"qwen2_moe", "qwen3_moe"}:
        values = {"decoder_sparse_step": 1, "mlp_only_layers": [], "head_dim": shape.head_dim}
    elif name == "llama4_text":
        step = max(shape.layers // max(shape.moe_layers, 1), 1)
        values = {"intermediate_size": shape.expert_mlp, "intermediate_size_mlp": shape.mlp,
                  "interleave_moe_layer_step": step}  # fmt: skip
    if latent is not None:
        values |= {"q_lora_rank": latent.q_rank, "kv_lora_rank": latent.kv_rank, "v_head_dim": latent.value,
                   "qk_nope_head_dim": latent.nope, "qk_rope_head_dim": latent.rope, "head_dim": latent.rope,
                   "num_key_value_heads": shape.heads,
                   "n_shared_experts": shape.shared_mlp // max(shape.expert_mlp, 1)}  # fmt: skip
    return values


def depth(config: Any) -> int:
    """Blocks of a model, of each half in an encoder-decoder."""
    return int(config.num_hidden_layers)


def layer_pattern(config: Any) -> Pattern:
    """How the kinds of its blocks repeat."""
    count = depth(config)
    found: list[list[Any]] = []
    for value in config.to_dict().values():
        if _indices(value, count):
            found.append([at in value for at in range(count)])
        elif isinstance(value, list | tuple) and len(value) == count > 1:
            found.append([str(each) for each in value])
    first_dense = getattr(config, "first_k_dense_replace", None)
    if isinstance(first_dense, int):
        found.append([at < first_dense for at in range(count)])
    for name in ("interleave_moe_layer_step", "decoder_sparse_step", "global_attn_every_n_layers"):
        step = getattr(config, name, None)
        if isinstance(step, int) and step > 1:
            found.append([(at + 1) % step == 0 for at in range(count)])
    return pattern([tuple(each[at] for each in found) for at in range(count)])


def _indices(value: Any, count: int) -> bool:
    """Whether a list names blocks by their numbers (`moe_layers`), and is not one entry a block."""
    numbers = isinstance(value, list | tuple) and len(value) > 1 and all(type(each) is int for each in value)
    return numbers and all(low < high for low, high in pairwise(value)) and value[-1] < count


def _shortened(config: Any, layers: int) -> Any:
    """The same configuration with fewer blocks, each of the kind that stands there in the whole."""
    count, values = depth(config), config.to_dict()
    changed: dict[str, Any] = {}
    for key, value in values.items():
        if _indices(value, count):
            changed[key] = [at for at in value if at < layers]
        elif isinstance(value, list | tuple) and len(value) == count > 1:
            changed[key] = list(value[:layers]) if layers <= count else None
    names = ("num_hidden_layers", *(("num_decoder_layers",) if values.get("num_decoder_layers") else ()))
    for name in (config.attribute_map.get(name, name) for name in names):
        changed[name] = layers
    first_dense = values.get("first_k_dense_replace")
    if isinstance(first_dense, int):
        changed["first_k_dense_replace"] = min(first_dense, layers)
    dropped = {"model_type", "transformers_version", "quantization_config"}
    merged = {key: value for key, value in {**values, **changed}.items() if key not in dropped}
    return type(config)(**merged)
