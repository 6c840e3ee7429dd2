"""Published peaks of `torch.cuda.max_memory_allocated`, a few of each kind; the whole table is scored by a program.

Source: foundation-model-stack/fms-acceleration, scripts/benchmarks/refs (A100 80GB, 4096 packed tokens, checkpointing,
FlashAttention 2, LoRA rank 16 on q, k, v, o with dropout 0.1), GiB a GPU.
"""

import pytest

from gpudoctor.estimate import estimate

GIB = 2**30
COMMON = {
    "model": "mistral-7b-v0.1", "seq": 4096, "attention": "flash", "lora_targets": "q,k,v,o", "lora_dropout": 0.1,
    "mixed_precision": "bf16", "kbit_prepare": False,
}  # fmt: skip
OLD = {"stack": "hf-2024", "mixed_precision": "no"}
NEW = {"stack": "hf-2024-11", "fused_norm": True}
FSDP = {"parallel": "fsdp", "gpus": 2}


@pytest.mark.parametrize(
    ("change", "peak", "static", "instant"),
    [
        ({**OLD, "batch": 4}, 67.460, 40.483, "step"),
        ({**OLD, **FSDP, "batch": 2}, 33.738, 26.994, "step"),
        ({**NEW, "batch": 16, "loss": "chunked"}, 71.847, 40.483, "layer"),
        ({**NEW, **FSDP, "gpus": 4, "batch": 16, "loss": "chunked"}, 52.509, 26.995, "layer"),
        ({**OLD, "method": "lora", "batch": 8, "loss": "fused", "fused_norm": True}, 31.926, 13.658, "loss"),
        ({**NEW, "method": "lora", "batch": 16, "loss": "chunked"}, 46.677, 13.658, "layer"),
        ({"stack": "hf-2024", "method": "qlora", "batch": 4}, 15.249, 4.011, "loss"),
        ({"stack": "hf-2024", "method": "qlora", "batch": 4, "kbit_prepare": True}, 19.250, 4.011, None),
        ({**NEW, "method": "qlora", "batch": 8, "loss": "chunked", "lora_fused": True}, 20.267, 4.011, "layer"),
        ({**NEW, **FSDP, "method": "qlora", "batch": 16, "loss": "chunked", "lora_fused": True}, 50.241, 2.092, "layer"),
        ({"stack": "hf-2024", "method": "gptq-lora", "dtype": "fp16", "mixed_precision": "fp16", "batch": 8}, 26.489, 4.039, "loss"),
    ],
)  # fmt: skip
def test_allocated_peaks_within_one_percent(change, peak, static, instant):
    found = estimate(**{**COMMON, **change})
    assert found.total_bytes / GIB == pytest.approx(peak, rel=0.01)
    assert found.static / GIB == pytest.approx(static, rel=0.005)
    if instant is not None:
        assert found.peak.name == instant
