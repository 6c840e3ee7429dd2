"""A model's config.json to its shape: counts equal to the presets', sentences for what cannot be read."""

import pytest
from some import some

from gpudoctor.errors import UsageError
from gpudoctor.estimate.config_json import shape_of_config
from gpudoctor.estimate.presets import preset

PUBLISHED = {
    "llama-3-8b": {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False,
        "max_position_embeddings": 8192, "attention_bias": False,
    },
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "num_attention_heads": 32,
        "num_hidden_layers": 48, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
        "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "decoder_sparse_step": 1,
        "tie_word_embeddings": False, "max_position_embeddings": 40960,
    },
    "gemma-2-9b": {
        "model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_attention_heads": 16,
        "num_hidden_layers": 42, "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000,
        "sliding_window": 4096, "max_position_embeddings": 8192,
    },
    "mixtral-8x7b": {
        "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8,
        "num_experts_per_tok": 2, "sliding_window": None, "tie_word_embeddings": False,
        "max_position_embeddings": 32768,
    },
    "deepseek-v3": {
        "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
        "num_attention_heads": 128, "num_key_value_heads": 128, "num_hidden_layers": 61, "vocab_size": 129280,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "tie_word_embeddings": False, "max_position_embeddings": 163840,
    },
    "gpt2": {
        "model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "n_ctx": 1024,
        "n_inner": None, "vocab_size": 50257,
    },
    "falcon-40b": {
        "model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_hidden_layers": 60,
        "num_kv_heads": 8, "multi_query": True, "new_decoder_architecture": True, "vocab_size": 65024,
    },
    "flan-t5-xl": {
        "model_type": "t5", "d_model": 2048, "d_ff": 5120, "d_kv": 64, "num_heads": 32, "num_layers": 24,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "vocab_size": 32128,
    },
    "bert-base-uncased": {
        "model_type": "bert", "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12,
        "num_hidden_layers": 12, "max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": 30522,
    },
    "llama-4-maverick-17b-128e-text": {
        "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 48,
        "vocab_size": 202048, "num_local_experts": 128, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
        "tie_word_embeddings": False, "max_position_embeddings": 131072,
    },
    "vit-base-patch16-224": {
        "model_type": "vit", "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12,
        "num_hidden_layers": 12, "image_size": 224, "patch_size": 16, "num_channels": 3,
    },
}  # fmt: skip


def test_counts_equal_the_presets():
    for name, config in some(PUBLISHED.items()):
        shape, notes = shape_of_config(config, name)
        known = preset(name).shape
        assert shape.parameters.total == preset(name).parameters, name
        assert shape.parameters == known.parameters and not notes, name
        assert (shape.heads, shape.kv_heads, shape.head_dim) == (known.heads, known.kv_heads, known.head_dim), name


LLAMA = PUBLISHED["llama-3-8b"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({**LLAMA, "model_type": "lama"}, "nearest known are llama"),
        ({**LLAMA, "hidden_size": None}, "hidden_size is missing"),
        ({**LLAMA, "hidden_size": -1}, "hidden_size is -1"),
        ({**LLAMA, "hidden_size": True}, "hidden_size is True"),
        ({**LLAMA, "num_hidden_layers": 10**15}, "num_hidden_layers"),
        ({**LLAMA, "num_hidden_layers": 0}, "layers is 0"),
        ({**LLAMA, "num_attention_heads": 0}, "num_attention_heads 0"),
        ({**LLAMA, "vocab_size": [1, 2]}, "vocab_size is [1, 2]"),
        ({**PUBLISHED["deepseek-v3"], "v_head_dim": None}, "v_head_dim is missing"),
        ({**PUBLISHED["mixtral-8x7b"], "num_experts_per_tok": 9}, "top_k must be from 1 to 8"),
    ],
)
def test_what_cannot_be(config, said):
    with pytest.raises(UsageError) as caught:
        shape_of_config(config, "config.json")
    assert said in str(caught.value)
