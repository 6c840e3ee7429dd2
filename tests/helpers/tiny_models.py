"""config.json objects of tiny models without dropout, several architectures of transformers."""

from typing import Any

_COMMON = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 96}
_GATED = {**_COMMON, "intermediate_size": 96, "num_key_value_heads": 2}
_BERT = {"intermediate_size": 96, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

TINY: dict[str, dict[str, Any]] = {
    "llama": {**_GATED, "model_type": "llama"},
    "qwen3": {**_GATED, "model_type": "qwen3", "head_dim": 16},
    "gemma2": {**_GATED, "model_type": "gemma2", "head_dim": 16},
    "mixtral": {**_GATED, "model_type": "mixtral", "num_local_experts": 4},
    "gpt2": {
        "model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 96, "resid_pdrop": 0.0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    },
    "bert": {**_COMMON, **_BERT, "model_type": "bert"},
    "t5": {
        "model_type": "t5", "d_model": 64, "num_layers": 3, "num_heads": 4, "d_kv": 16, "d_ff": 96,
        "vocab_size": 96, "dropout_rate": 0.0, "decoder_start_token_id": 0,
    },
    "vit": {
        **_BERT, "model_type": "vit", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
        "image_size": 32, "patch_size": 8,
    },
    "biogpt": {**_COMMON, **_BERT, "model_type": "biogpt", "activation_dropout": 0.0},
}  # fmt: skip
"""Name to config.json; none of these formulas know biogpt."""
