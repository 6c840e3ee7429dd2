"""Model FLOPs by formula against torch's own counter on real models."""

import warnings

import pytest

from gpudoctor.estimate import TrainingJob
from gpudoctor.estimate.config_json import shape_of_config
from gpudoctor.estimate.flops import step_work

PLAIN = {"seq": 32, "batch": 2, "dtype": "fp32", "attention": "eager", "checkpointing": "none"}
COMMON = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 200}
CONFIGS = {
    "llama": {**COMMON, "model_type": "llama", "num_key_value_heads": 2, "intermediate_size": 96},
    "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 200, "n_positions": 64},
}


def counted(config, job):
    """Operations of a real step on the CPU."""
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    from torch.utils.flop_counter import FlopCounterMode

    from gpudoctor.estimate.real.build import build

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built = build(config, job)
        with FlopCounterMode(display=False) as counter:
            built.forward().backward()
    return counter.get_total_flops()


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(
    ("method", "near"),
    [("full", 0.02), ("lora", 0.08)],  # with adapters the first of three blocks is spared a part
)
def test_as_torchs_counter_counts_them(name, method, near):
    pytest.importorskip("torch")
    config = CONFIGS[name]
    job = TrainingJob(method=method, **PLAIN)
    shape, _ = shape_of_config(config, name)
    work = step_work(shape, job)
    assert work.total == pytest.approx(counted(config, job), rel=near)
