"""Model FLOPs by formula against torch's own counter on real models."""

import warnings

import pytest

from gpudoctor.estimate import TrainingJob, lookup
from gpudoctor.estimate.config_json import shape_of_config
from gpudoctor.estimate.flops import step_work

PLAIN = {"seq": 32, "batch": 2, "dtype": "fp32", "attention": "eager", "checkpointing": "none"}
COMMON = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 200}
CONFIGS = {
    "llama": {**COMMON, "model_type": "llama", "num_key_value_heads": 2, "intermediate_size": 96},
    "gpt_neox": {**COMMON, "model_type": "gpt_neox", "intermediate_size": 128},
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


def test_known_orders():
    """Six operations a weight and token in full training (arXiv 2001.08361), four over a frozen base."""
    shape = lookup("llama-2-7b").preset.shape
    weights = shape.parameters.linear + shape.vocab * shape.hidden
    full, lora = (step_work(shape, TrainingJob(method=method, seq=512)) for method in ("full", "qlora"))
    assert full.total / (512 * weights) == pytest.approx(6, rel=0.03)
    assert lora.total / (512 * weights) == pytest.approx(4, rel=0.05)
    assert full.tokens == 512
    freeze = step_work(shape, TrainingJob(method="freeze", seq=512))  # the last two of 32 blocks, and the head
    assert freeze.forward == full.forward and 0.06 < freeze.backward / full.backward < 0.09
    twice = step_work(shape, TrainingJob(seq=512, accumulate=2))
    assert twice.total == 2 * full.total


def test_experts_count_where_a_token_goes():
    shape = lookup("mixtral-8x7b").preset.shape
    job = TrainingJob(seq=512)
    active = step_work(shape, job).total / (6 * 512)
    assert 12e9 < active < 14e9 < shape.parameters.total
