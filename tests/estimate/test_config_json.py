"""A model's config.json to its shape: counts equal to the presets', sentences for what cannot be read."""

import json
from pathlib import Path

import pytest
from some import some

from gpudoctor.errors import UsageError
from gpudoctor.estimate.config_json import UnknownArchitecture, shape_of_config
from gpudoctor.estimate.presets import preset

CONFIGS = json.loads((Path(__file__).parent / "configs.json").read_text(encoding="utf-8"))
"""What hub repositories publish: of models that equal a preset, and of language models with an encoder."""
PUBLISHED = CONFIGS["published"]


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


def test_an_architecture_whose_blocks_have_no_formula_is_left_to_its_class():
    with pytest.raises(UnknownArchitecture, match="qwen3_next"):
        shape_of_config({"model_type": "qwen3_next", "hidden_size": 2048}, "hybrid")


def test_the_encoder_of_a_vision_language_model_is_counted():
    """Qwen2.5-VL-7B has 8.29 B parameters, 7.62 B of them in its language model."""
    config = {
        "model_type": "qwen2_5_vl", "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28,
        "num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False,
        "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
                          "hidden_act": "silu"},
    }  # fmt: skip
    shape, notes = shape_of_config(config, "config.json")
    assert shape.parameters.total == pytest.approx(8.292e9, rel=0.01)
    assert any("without its projector" in note for note in notes)
    del config["vision_config"]["depth"]
    shape, notes = shape_of_config(config, "config.json")
    assert shape.tower is None and any("is not counted" in note for note in notes)
