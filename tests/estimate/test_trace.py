"""The traced model against real steps on the CPU, and few traced blocks against all."""

import warnings
from dataclasses import replace
from unittest.mock import patch

import pytest
from packages import need
from tiny_models import TINY

need("torch", "transformers", "peft")

from gpudoctor.errors import UsageError  # noqa: E402
from gpudoctor.estimate.job import TrainingJob  # noqa: E402
from gpudoctor.estimate.real.build import build  # noqa: E402
from gpudoctor.estimate.real.config import Pattern  # noqa: E402
from gpudoctor.estimate.traced.cuda_behaviour import fake_world  # noqa: E402
from gpudoctor.estimate.traced.trace_job import follow, trace  # noqa: E402

PLAIN = TrainingJob(method="full", seq=24, batch=2, dtype="fp32", attention="eager", checkpointing="none")


@pytest.fixture(autouse=True)
def quiet():
    import peft  # noqa: F401  # in a fake world its defaults would be fake tensors, and traced

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def saved_bytes(config, job):
    """What a real forward on the CPU keeps: autograd's saved tensors and the loss, each storage once."""
    import torch

    built = build(config, job)
    own = (*built.model.parameters(), *built.model.buffers(), *built.batch.values(), *built.spare)
    known = {each.untyped_storage().data_ptr() for each in own}
    found, alive = {}, []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in known:
            found[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # or an address may come back
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = built.forward()
    found[loss.untyped_storage().data_ptr()] = loss.untyped_storage().nbytes()
    return sum(found.values())


def traced_bytes(config, job):
    """What the trace holds beside weights, states and batch when the backward of its last step begins.

    The optimizer has no part in that: the one whose step takes least to follow does.
    """
    with fake_world():
        ledger, _ = follow(lambda: build(config, replace(job, optimizer="sgd")))
    rows = zip(ledger.windows, ledger.starts, strict=True)
    at = max(start for window, start in rows if window.phase == "loss-backward")
    return sum(storage.bytes for storage in ledger.alive_at(at) if not storage.kind)


def two_blocks(name):
    """A first and a last block: one between them is llama's, and in `test_a_few_blocks_tell_of_all`."""
    key = next(key for key in ("num_hidden_layers", "num_layers", "n_layer") if key in TINY[name])
    return {**TINY[name], key: 2}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "gemma2", "mixtral", "gpt2", "bert", "t5"])
def test_saved_activations_are_exact_to_the_byte(name):
    config = TINY[name] if name == "llama" else two_blocks(name)
    assert traced_bytes(config, PLAIN) == saved_bytes(config, PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama", {"method": "lora"}),
        ("mixtral", {"dtype": "bf16"}),
        ("qwen3", {"method": "lora", "lora_targets": ("all-linear",), "dtype": "bf16"}),
        ("llama", {"method": "qlora", "dtype": "bf16"}),
    ],
)
def test_adapters_and_types_are_exact_too(name, changes):
    job = replace(PLAIN, **changes)
    assert traced_bytes(two_blocks(name), job) == saved_bytes(two_blocks(name), job)


TARGETS = ("q_proj", "v_proj")


def trace_all(config, job):
    """The trace with every block followed."""
    with patch.object(Pattern, "depths", lambda pattern: (pattern.layers,)):
        return trace(config, job)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layers", "changes"),
    [
        ("llama", 4, {"method": "qlora", "lora_targets": TARGETS, "checkpointing": "layer", "accumulate": 2}),
        ("gemma2", 8, {"checkpointing": "none", "optimizer": "sgd"}),
    ],
)
def test_a_few_blocks_tell_of_all(name, layers, changes):
    config = {**TINY[name], "num_layers" if name == "t5" else "num_hidden_layers": layers}
    job = TrainingJob(**{"method": "full", "seq": 64, "batch": 2, **changes})
    few, whole = trace(config, job), trace_all(config, job)
    assert whole.depths == (layers,) and max(few.depths) < layers
    assert [(each.name, each.bytes) for each in few.instants] == [(each.name, each.bytes) for each in whole.instants]
    assert (few.static, few.parameters, few.layers) == (whole.static, whole.parameters, layers)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"optimizer": "galore"}, "--optimizer galore"),
        ({"method": "gptq-lora"}, "gptq-lora"),
        ({"gpus": 2, "parallel": "ddp"}, "--parallel ddp"),
        ({"method": "freeze"}, "freeze"),
        ({"loss": "fused"}, "--loss fused"),
    ],
)
def test_what_only_formulas_know_is_refused(changes, named):
    job = TrainingJob(**{"method": "lora", **changes})
    with pytest.raises(UsageError, match=named):
        trace(TINY["llama"], job)
