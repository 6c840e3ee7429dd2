"""Traced beside analytic over architectures and methods, and traced beside real CPU steps for tiny models.

    python benchmarks/trace_check.py                 the table of large models
    python benchmarks/trace_check.py --tiny          tiny models: traced beside saved_tensors_hooks
    python benchmarks/trace_check.py --models 7b,qwen3-8b --methods lora
    python benchmarks/trace_check.py --format json

Needs torch, transformers and peft. Rows apart by more than 5 % are marked with `*`; the exit code is 1 where a
row could not be traced.
"""

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from gpudoctor.errors import DoctorError
from gpudoctor.estimate import estimate_job, lookup
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.traced.trace_job import trace

MODELS = (
    "llama-2-7b", "llama-3-8b", "mistral-7b", "qwen2.5-7b", "qwen3-8b", "gemma-2-9b", "phi-2", "gpt2",
    "opt-1.3b", "gpt-neox-20b", "mixtral-8x7b", "bert-base-uncased",
)  # fmt: skip
METHODS: dict[str, dict[str, Any]] = {
    "full": {"method": "full"},
    "full, kept": {"method": "full", "checkpointing": "none"},
    "full, eager": {"method": "full", "checkpointing": "none", "attention": "eager"},
    "full, autocast": {"method": "full", "dtype": "fp32", "mixed_precision": "bf16", "checkpointing": "none"},
    "lora": {"method": "lora"},
    "lora all, kept": {"method": "lora", "lora_targets": ("all-linear",), "checkpointing": "none"},
    "qlora": {"method": "qlora"},
}
APART = 0.05
Row = dict[str, Any]


def large(models: list[str], methods: list[str]) -> list[Row]:
    """Analytic and traced peaks of known models."""
    rows = []
    for model in models:
        for method in methods:
            rows.append(row := _large_row(model, method))
            print(row, file=sys.stderr, flush=True)
    return rows


def _large_row(model: str, method: str) -> Row:
    start = time.perf_counter()
    row: Row = {"model": model, "method": method}
    try:
        shape = lookup(model).preset.shape
        seq = 512 if shape.positions == "learned" and 0 < shape.max_positions < 2048 else 2048
        job = TrainingJob(**{"seq": seq, **METHODS[method]})
        formula, traced = estimate_job(shape, job), trace(shape, job)
    except DoctorError as error:
        return row | {"why": str(error)}
    known = {each.name: each.bytes for each in formula.instants}
    worst = max(
        ((known[each.name] / each.bytes - 1, each.name) for each in traced.instants if each.name in known),
        key=lambda pair: abs(pair[0]),
    )
    return row | {
        "analytic": formula.total_bytes, "traced": traced.peak.bytes, "instant": traced.peak.name,
        "difference": round(formula.total_bytes / traced.peak.bytes - 1, 4),
        "worst": round(worst[0], 4), "worst_instant": worst[1],
        "seconds": round(time.perf_counter() - start, 2),
    }  # fmt: skip


def tiny() -> list[Row]:
    """Bytes alive before the backward: traced, and by autograd's own hooks in a real step on the CPU."""
    sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / at) for at in ("helpers", "estimate")]
    from test_trace import PLAIN, saved_bytes, traced_bytes
    from tiny_models import TINY

    rows = []
    for name, config in TINY.items():
        traced, saved = traced_bytes(config, PLAIN), saved_bytes(config, PLAIN)
        rows.append({
            "model": name, "method": "full, fp32, eager", "hooks": saved, "traced": traced,
            "difference": round(traced / saved - 1, 6),
        })  # fmt: skip
    return rows


def table(rows: list[Row]) -> str:
    """Aligned text; bytes of large models in GiB."""
    lines = []
    for row in rows:
        head = f"{row['model']:20} {row['method']:18}"
        if "why" in row:
            lines.append(f"{head} not traced: {row['why']}")
            continue
        if "hooks" in row:
            lines.append(f"{head} hooks {row['hooks']:>10,} B  traced {row['traced']:>10,} B  {row['difference']:+.2%}")
            continue
        mark = "*" if abs(row["difference"]) > APART else " "
        sizes = f"{row['analytic'] / 2**30:9.2f} {row['traced'] / 2**30:9.2f} GiB {row['difference']:+7.1%}{mark}"
        worst = f"worst {row['worst']:+.1%} at {row['worst_instant']}"
        lines.append(f"{head} {sizes} peak at {row['instant']:12} {worst:28} {row['seconds']:6.1f} s")
    return "\n".join(lines)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by semicolons")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    rows = tiny() if arguments.tiny else large(arguments.models.split(","), arguments.methods.split(";"))
    print(json.dumps(rows, indent=1) if arguments.format == "json" else table(rows))
    return 1 if any("why" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
