"""A model's `config.json` to its shape.

Only widths and counts stand in that file. What its architecture does with them (kind of norm, biases, fused
matrices) is taken from a known model of the same `model_type`.
"""

import difflib
import math
from collections.abc import Mapping
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.presets import families as known_families
from gpudoctor.estimate.presets import family_shape
from gpudoctor.estimate.shapes import Latent, ModelShape
from gpudoctor.estimate.tables import read_table
from gpudoctor.lang import say

Config = Mapping[str, Any]


class UnknownArchitecture(UsageError):
    """No formula knows this architecture; transformers may."""

    def __init__(self, text: str, config: Config) -> None:
        super().__init__(text)
        self.config = config


_KEYS: dict[str, list[str]] = read_table("names.json")["keys"]
_SAME: dict[str, str] = read_table("names.json")["same"]
"""Architectures that are built like one that we know, tensor for tensor or nearly so."""
_LARGEST = 10**12
_PATCHES = 1024
"""Of an image whose size the config leaves open: 448 x 448 pixels in patches of 14."""


def shape_of_config(config: Config, name: str) -> tuple[ModelShape, tuple[str, ...]]:
    """The shape and what was assumed. Raises `UsageError` that names the field and what it may be."""
    notes: list[str] = []
    tower = _tower(config, name, notes)
    config = _text_part(config)
    family, like = _family(config, name)
    read = _Reader(config, name)
    hidden, layers, heads = (read.needed(field) for field in ("hidden", "layers", "heads"))
    head_dim = read.number("head_dim") or _head_dim(hidden, heads, name)
    experts, inner = read.number("experts") or 0, config.get("feed_forward_proj")
    gated = inner.startswith("gated") if family in {"t5", "mt5"} and isinstance(inner, str) else like.gated
    kv_heads = read.number("kv_heads") or heads
    if family == "gpt_bigcode" or (family == "falcon" and not read.switch("new_decoder_architecture", False)):
        kv_heads = 1 if read.switch("multi_query", True) else heads
    vocab, positions = None if like.kind == "vision" else read.needed("vocab"), read.number("max_positions")
    if vocab is None:
        labels = config.get("id2label")
        vocab = len(labels) if isinstance(labels, Mapping) and labels else read.number_of("num_labels") or 2
        image, patch = read.number_of("image_size"), read.number_of("patch_size")
        positions = (image // patch) ** 2 + 1 if image and patch else positions  # one a patch, and the class token
    values: dict[str, Any] = {
        "name": name, "family": like.family, "hidden": hidden, "layers": layers, "heads": heads,
        "kv_heads": kv_heads, "head_dim": head_dim, "mlp": _mlp(read, family, hidden),
        "vocab": vocab, "tied": read.switch("tie_word_embeddings", like.tied),
        "max_positions": positions or like.max_positions,
        "window": None if config.get("use_sliding_window") is False else read.number("window") or None,
        "biases": _biases(read, family, like), "gated": gated, "tower": tower,
        "block_norms": 2 if config.get("new_decoder_architecture") is True else like.block_norms,
    }  # fmt: skip
    values |= {
        field: getattr(like, field)
        for field in (
            "kind", "norm", "final_norm", "qk_norm", "positions", "fused_qkv", "fused_gate_up",
            "window_share", "shared_gate", "router_linear",
        )
    }  # fmt: skip
    if experts:
        values |= _experts(read, family, experts, values)
    if read.number_of("kv_lora_rank"):
        values |= _latent(read)
    values["extras"] = tuple((what, _extra(what, config, values)) for what, _ in like.extras)
    square = hidden**2 if like.extra_linear else 0
    values["extra_linear"] = hidden * values["vocab"] if like.kind == "vision" else square
    if family != config.get("model_type"):
        notes.append(say("{config} is taken as built like {family}", config=config.get("model_type"), family=family))
    try:
        return ModelShape(**values), tuple(notes)
    except UsageError as error:
        raise UsageError("{name}: {error}", name=name, error=error) from None


class _Reader:
    """Numbers of a config under the names that its library uses for them."""

    def __init__(self, config: Config, name: str) -> None:
        self.config, self.name = config, name

    def needed(self, field: str) -> int:
        """A number that must be there."""
        number = self.number(field)
        if number is None:
            raise UsageError(
                "{name}: {key} is missing (also looked for: {other_keys}); is this the config.json of a "
                "transformers model?",
                name=self.name,
                key=_KEYS[field][0],
                other_keys=", ".join(_KEYS[field][1:]),
            )
        return number

    def number(self, field: str) -> int | None:
        """A number under the first of its names; None where none is written or it is null."""
        for key in _KEYS[field]:
            found = self.number_of(key)
            if found is not None:
                return found
        return None

    def number_of(self, key: str) -> int | None:
        """A whole number under this very name."""
        value = self.config.get(key)
        if value is None or value is False:
            return None
        if isinstance(value, list) and value and len(set(map(str, value))) == 1:
            value = value[0]  # one number a layer, all the same
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
            raise UsageError(
                "{name}: {key} is {value!r}; it must be a whole number from 1 to {largest:.0e}",
                name=self.name,
                key=key,
                value=value,
                largest=_LARGEST,
            )
        return value

    def switch(self, key: str, default: bool) -> bool:
        """A truth value."""
        value = self.config.get(key)
        return value if isinstance(value, bool) else default


def _text_part(config: Config) -> Config:
    """The language model of a model of several kinds of input."""
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping) and inner:
            outer = {field: config[field] for field in ("model_type", "tie_word_embeddings") if field in config}
            return {**outer, **inner}
    return config


def _tower(config: Config, name: str, notes: list[str]) -> ModelShape | None:
    """The encoder of images or sound beside the language model, as one of plain blocks."""
    parts = {key: config.get(key) for key in ("vision_config", "audio_config")}
    key, inner = next(((key, part) for key, part in parts.items() if isinstance(part, Mapping) and part), ("", {}))
    if not key:
        return None
    read = _Reader(inner, name)
    hidden = read.number_of("embed_dim") or read.number("hidden")
    layers, heads = read.number("layers"), read.number("heads")
    if not hidden or not layers or not heads or hidden % heads:
        notes.append(say("the encoder ({key}) is not counted: its widths are not written there", key=key))
        return None
    notes.append(say("the encoder ({key}) is counted as plain blocks, without its projector", key=key))
    image, patch = read.number_of("image_size"), read.number_of("patch_size")
    return ModelShape(
        name="tower", family="vit", kind="vision", layers=layers, hidden=hidden, heads=heads, kv_heads=heads,
        head_dim=hidden // heads, mlp=read.number("mlp") or 4 * hidden, vocab=0,
        gated=inner.get("hidden_act") == "silu", norm="layernorm", biases=("qkv", "o", "mlp"), positions="learned",
        max_positions=(image // patch) ** 2 + 1 if image and patch else _PATCHES,
    )  # fmt: skip


def _family(config: Config, name: str) -> tuple[str, ModelShape]:
    """The architecture and a known model that is built like it."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or not kind:
        raise UsageError("{name}: model_type is missing or not a text; give the config.json of transformers", name=name)
    spellings = (kind, kind.removesuffix("_text"), f"{kind}_text")
    families = [_SAME.get(spelling, spelling) for spelling in spellings]
    family, like = next(((each, shape) for each in families if (shape := family_shape(each)) is not None), (kind, None))
    if like is None or like.rough:
        near = difflib.get_close_matches(kind, [*known_families(), *_SAME], n=3, cutoff=0.5)
        raise UnknownArchitecture(
            say(
                "{name}: model_type {kind!r} is an architecture that estimate does not know{nearest}. "
                "Give the numbers instead: --set hidden=N and layers, heads, intermediate, vocab. Or add "
                "--trace, which runs the class of transformers",
                name=name,
                kind=kind,
                nearest=say("; the nearest known are {near}", near=", ".join(near)) if near else "",
            ),
            config,
        )
    return family, like


def _head_dim(hidden: int, heads: int, name: str) -> int:
    if not heads or hidden % heads:
        raise UsageError(
            "{name}: hidden_size {hidden} is not a multiple of num_attention_heads {heads}, and head_dim is missing",
            name=name,
            hidden=hidden,
            heads=heads,
        )
    return hidden // heads


def _mlp(read: _Reader, family: str, hidden: int) -> int:
    if family == "llama4_text" and read.number_of("intermediate_size_mlp"):
        return read.number_of("intermediate_size_mlp") or 0
    if family == "mpt":
        return hidden * (read.number_of("expansion_ratio") or 4)
    width = read.number("mlp")
    if width is None:
        return 4 * hidden  # the default of GPT-2, GPT-J, BLOOM, Falcon
    return width // 2 if family == "qwen" else width  # Qwen 1 writes gate and up together


def _biases(read: _Reader, family: str, like: ModelShape) -> tuple[str, ...]:
    found = list(like.biases)
    if read.switch("attention_bias", False) and not found:
        found += ["qkv", "o"]
    if read.switch("mlp_bias", False):
        found.append("mlp")
    if family == "mpt" and not read.switch("no_bias", True):
        found = ["qkv", "o", "mlp"]
    return tuple(dict.fromkeys(found))


def _experts(read: _Reader, family: str, experts: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """The mixture-of-experts part."""
    layers, width = values["layers"], read.number("expert_mlp") or values["mlp"]
    if family == "llama4_text":
        width = read.number("mlp") or width
    shared = read.number_of("shared_expert_intermediate_size") or read.number_of("shared_intermediate_size")
    if shared is None:
        shared = width * (1 if family == "llama4_text" else read.number_of("n_shared_experts") or 0)
    step = read.number_of("interleave_moe_layer_step") or read.number_of("decoder_sparse_step") or 1
    dense = read.number_of("first_k_dense_replace") or layers - layers // max(step, 1)
    return {
        "experts": experts, "top_k": read.number("top_k") or 1, "expert_mlp": width, "shared_mlp": shared,
        "dense_layers": dense,
    }  # fmt: skip


def _latent(read: _Reader) -> dict[str, Any]:
    numbers = {}
    for key in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        number = read.number_of(key)
        if not number:
            raise UsageError("{name}: {key} is missing or 0; latent attention needs it", name=read.name, key=key)
        numbers[key] = number
    latent = Latent(
        q_rank=read.number_of("q_lora_rank"), kv_rank=numbers["kv_lora_rank"],
        nope=numbers["qk_nope_head_dim"], rope=numbers["qk_rope_head_dim"], value=numbers["v_head_dim"],
    )  # fmt: skip
    return {"latent": latent, "head_dim": latent.value}


def _extra(what: str, config: Config, values: Mapping[str, Any]) -> int:
    """Parameters that a preset of this architecture lists by name, for other widths."""
    hidden, heads, layers = int(values["hidden"]), int(values["heads"]), int(values["layers"])
    read = _Reader(config, values["name"])
    patch = read.number_of("patch_size") or 16
    return {
        "two spare positions": 2 * hidden,
        "norm of the embedding": 2 * hidden,
        "attention sinks": layers * heads,
        "token types": (read.number_of("type_vocab_size") or 2) * hidden,
        "norm and biases of the masked-language head": 3 * hidden,
        "relative positions": 2 * heads * (read.number_of("relative_attention_num_buckets") or 32),
        "class token": hidden,
        "patch convolution": ((read.number_of("num_channels") or 3) * patch * patch + 1) * hidden,
        "bias of the classifier": int(values["vocab"]),
        "layer scales": 2 * layers * hidden,
    }.get(what, 0)
