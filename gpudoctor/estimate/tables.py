"""Reads the tables of this package (presets, GPUs, library releases), and the constants of library releases."""

import json
import os
from functools import cache, lru_cache
from typing import Any

from gpudoctor.model.records import frozen

_FOLDER = os.path.join(os.path.dirname(__file__), "data")


@cache
def read_table(name: str) -> Any:
    """A JSON file of `data/`. By path: the import of importlib.resources takes a tenth of an estimate."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as stream:
        return json.load(stream)


# Whose code runs: constants that belong to releases of the libraries, from `data/stacks.json`.


@frozen
class Stack:
    """One set of libraries in the releases that were used together."""

    name: str
    """Its key: `hf`, `hf-2024`, `torchtitan`..."""
    title: str
    """The same for a person, with versions."""
    source: str
    stock_vocab: int
    """Bytes per token and vocabulary entry at the worst operation of the library's own loss."""
    fused_vocab: int
    """The same with a fused kernel on whole logits; 0 where "fused" means head and loss together (Liger's default)."""
    reentrant: bool
    """Whether checkpointing is reentrant by default: the recomputed output stays until the block's backward
    ends."""
    repeat_kv_families: tuple[str, ...]
    """Families whose flash attention repeats keys and values to all heads; `*` = all."""
    sdpa_repeats_kv: bool
    """Whether SDPA gets repeated keys and values."""
    outputs_kept: bool
    """Whether the logits stay referenced through the backward."""
    kbit_vocab_fp32: bool
    """Whether embedding and head stay fp32 after k-bit preparation (TRL returns them to bf16)."""
    experts_in_linears: bool
    """Whether routed experts are nn.Linear, so that quantizers reach them (transformers before 5)."""
    moe_loop: bool
    """Whether experts run one after the other, so that only one's gradients are alive."""
    fsdp_upcasts_trainable: bool
    """Whether bf16 autocast under FSDP turns trained weights to fp32 (accelerate)."""
    fsdp_adapters_low: bool
    """Whether adapters on a quantized base under FSDP are 16-bit and left whole on each GPU."""
    compiled_vocab: int
    """`stock_vocab` under torch.compile."""
    fused_norms: bool
    """Whether norms keep no fp32 copies without asking."""
    checked: bool
    """Whether many published runs of these very releases were compared with the formulas."""
    fused_lora: bool
    """Whether adapters run in kernels that keep each input once, in 16 bits, and need no k-bit preparation."""
    lazy_loading: bool
    """Whether CUDA loads kernels when first used (CUDA 11.7 with torch 1.13 and later): a smaller context."""
    expandable: bool
    """Whether the recipes turn on expandable segments."""
    litgpt: bool
    """Whether litgpt's model and loop run: what that means is in `analytic/litgpt.py`."""
    keeps_4bit_inputs: bool
    """Whether 4-bit products keep their inputs (bitsandbytes 0.41 to 0.43), as long as their graph lives."""
    stable_embedding: bool
    """Whether a 4-bit base gets a StableEmbedding, whose gradient is made but never used nor cleared."""


@lru_cache(maxsize=1)
def stacks() -> dict[str, Stack]:
    """All stacks by name."""
    rows = read_table("stacks.json")["stacks"]
    return {row["name"]: Stack(**{**row, "repeat_kv_families": tuple(row["repeat_kv_families"])}) for row in rows}


def stack(name: str) -> Stack:
    """The stack of a job, whose name was checked."""
    return stacks()[name]
