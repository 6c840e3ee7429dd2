"""Real CPU steps that were measured once (benchmarks/data/real-steps-cpu.csv), against the formulas of today."""

import csv
from pathlib import Path

import pytest

from gpudoctor.estimate import estimate

TABLE = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "real-steps-cpu.csv"
LLAMA = {"hidden": 512, "layers": 8, "heads": 8, "kv_heads": 2, "head_dim": 64, "intermediate": 1408, "vocab": 32000}


def configurations():
    full, lora = (
        {**LLAMA, "seq": 256, "batch": 2, "method": "full"},
        {**LLAMA, "seq": 256, "batch": 2, "method": "lora"},
    )
    plain = {"checkpointing": False}
    known = {"seq": 128, "batch": 1, "dtype": "fp32"}
    return [
        full, {**full, **plain}, {**full, "batch": 4}, {**full, "seq": 512, "batch": 1},
        {**full, "attention": "eager"}, {**full, "attention": "eager", **plain}, {**full, "dtype": "fp32"},
        {**full, "dtype": "fp32", **plain}, {**full, "dtype": "fp32", "mixed_precision": "bf16"},
        {**full, "accumulate": 2}, {**full, "optimizer": "sgd"},
        {**full, "optimizer": "adamw-fused"}, lora, {**lora, **plain}, {**lora, "lora_targets": "q,k,v,o"},
        {**lora, "lora_targets": "q,k,v,o", **plain}, {**lora, "mixed_precision": "bf16"},
        {**lora, "attention": "eager"}, {**lora, "method": "qlora"}, {**lora, "method": "freeze"},
        {**known, "model": "smollm2-135m", "method": "full"},
        {**known, "model": "smollm2-135m", "method": "lora"},
        {**known, "model": "pythia-70m", "method": "full"},
        {**known, "model": "opt-125m", "method": "full"},
        {**known, "model": "gpt2", "method": "full"}, {**known, "model": "qwen2.5-0.5b", "method": "lora"},
    ]  # fmt: skip


def title(options):
    model = options.get("model") or f"llama {options['layers']}x{options['hidden']}"
    parts = [model, options["method"], f"{options.get('batch', 1)}x{options.get('seq', 2048)}"]
    parts.append("checkpointing" if options.get("checkpointing", True) else "all kept")
    said = {*LLAMA, "model", "method", "batch", "seq", "checkpointing"}
    return " ".join([*parts, *(f"{key}={value}" for key, value in options.items() if key not in said)])


@pytest.fixture(scope="module")
def ratios():
    """Predicted over measured by instant and configuration."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        stream.readline()
        rows = [row for row in csv.DictReader(stream) if row["measured_bytes"]]
    measured = {(row["instant"], row["configuration"]): int(row["measured_bytes"]) for row in rows}
    found: dict[str, dict[str, float]] = {}
    for options in configurations():
        expected, name = estimate(**options), title(options)
        predicted = {instant.name: instant.bytes for instant in expected.instants}
        for instant, ours in (predicted | {"static": expected.static, "peak": expected.peak.bytes}).items():
            if (instant, name) in measured:
                # a CPU has no cuBLAS and no workspaces of it
                ours -= 0 if instant == "load" else sum(x.bytes for x in expected.peak.lines if x.kind == "workspace")
                found.setdefault(instant, {})[name] = ours / measured[instant, name]
    return found


@pytest.mark.parametrize(
    ("instant", "most"), [("peak", 0.01), ("static", 0.001), ("step", 0.001), ("backward", 0.03), ("layer", 0.03)]
)
def test_instants_are_near(ratios, instant, most):
    assert len(ratios[instant]) >= 20
    assert {name: ratio for name, ratio in ratios[instant].items() if abs(ratio - 1) > most} == {}
