"""More of anything never takes less memory, whatever the job; nothing breaks on the way."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from some import some

from gpudoctor.errors import UsageError
from gpudoctor.estimate import ModelShape, TrainingJob, device, estimate_job

HEADS = st.sampled_from([1, 2, 4, 8, 16, 32])


@st.composite
def shapes(draw):
    heads = draw(HEADS)
    kv_heads = draw(st.sampled_from([each for each in (1, 2, 4, 8, 16, 32) if heads % each == 0]))
    return ModelShape(
        name="any", layers=draw(st.integers(1, 96)), heads=heads, kv_heads=kv_heads,
        head_dim=draw(st.sampled_from([32, 64, 128])), hidden=draw(st.integers(1, 64)) * 128,
        mlp=draw(st.integers(1, 128)) * 128, vocab=draw(st.integers(100, 300_000)), tied=draw(st.booleans()),
        gated=draw(st.booleans()), norm=draw(st.sampled_from(["rmsnorm", "layernorm"])),
    )  # fmt: skip


@st.composite
def jobs(draw):
    fields = {
        "method": draw(st.sampled_from(["full", "lora", "qlora", "int8-lora", "gptq-lora", "freeze"])),
        "dtype": draw(st.sampled_from(["bf16", "fp16", "fp32"])),
        "mixed_precision": draw(st.sampled_from(["no", "bf16", "fp16"])),
        "optimizer": draw(st.sampled_from(["adamw", "adamw-8bit", "adafactor", "sgd", "lion", "paged-adamw"])),
        "seq": draw(st.integers(1, 32768)), "batch": draw(st.integers(1, 64)),
        "checkpointing": draw(st.sampled_from(["none", "layer", "selective", "offloaded"])),
        "attention": draw(st.sampled_from(["eager", "sdpa", "flash"])),
        "loss": draw(st.sampled_from(["stock", "fused", "chunked"])), "lora_rank": draw(st.integers(1, 256)),
        "kbit_prepare": draw(st.booleans()), "accumulate": draw(st.sampled_from([1, 4])),
    }  # fmt: skip
    if draw(st.booleans()):
        fields |= {"gpus": 8, "parallel": draw(st.sampled_from(["ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp2"]))}
    try:
        return TrainingJob(**fields)
    except UsageError:
        return TrainingJob(seq=fields["seq"], batch=fields["batch"])


@pytest.mark.slow
@given(shapes(), jobs(), st.data())
def test_more_batch_sequence_or_rank_is_never_less_memory(shape, job, data):
    name = data.draw(st.sampled_from(["batch", "seq", "lora_rank"]))
    more = replace(job, **{name: getattr(job, name) * data.draw(st.integers(2, 4))})
    less, greater = estimate_job(shape, job), estimate_job(shape, more)
    assert greater.total_bytes >= less.total_bytes
    assert greater.static >= less.static
    assert greater.card.used[1] >= max(greater.card.used[0], greater.total_bytes)


@given(shapes(), jobs())
def test_every_line_is_a_whole_number_of_bytes_with_a_formula(shape, job):
    estimate = estimate_job(shape, job, device("H100"))
    assert estimate.card.verdict is not None
    for instant in some(estimate.instants):
        assert instant.bytes == sum(line.bytes for line in instant.lines)
        for line in some(instant.lines):
            assert isinstance(line.bytes, int)
            assert line.bytes >= 0
            assert line.formula
            assert line.source
