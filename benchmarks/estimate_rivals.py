"""Ten published peaks against our estimate and other tools' answers.

    python benchmarks/estimate_rivals.py [--table CSV] [--format text|json|markdown]

The rows (`benchmarks/data/published-peaks.csv`, each with its source, in the format of `estimate_accuracy.py`)
are exact in tokens and read `torch.cuda.max_memory_allocated`; they are part of the table that the formulas
were checked on, so this compares tools and proves no accuracy. Where accelerate and DeepSpeed are installed,
their own functions are called (accelerate's on the model of the same shape, built on the meta device;
DeepSpeed's helper with the same counts); else their published formulas answer, and the table says which.
"""

import argparse
import csv
import importlib
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from estimate_rows import Row, row_of

from gpudoctor.estimate import Estimate, estimate_job
from gpudoctor.estimate.other_estimators import rivals

GIB = 1 << 30
TABLE = Path(__file__).with_name("data") / "published-peaks.csv"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text")
    options = parser.parse_args(arguments)
    with options.table.open(encoding="utf-8", newline="") as stream:
        rows = [row_of(cells) for cells in csv.DictReader(stream)]
    answers = [answer(row) for row in rows]
    report = {"rows": answers, "tools": summary(answers), "how": how()}
    print(
        json.dumps(report, indent=1)
        if options.format == "json"
        else shown(report, options.format == "markdown")
    )
    return 0


def answer(row: Row) -> dict[str, Any]:
    """One row: measured bytes and every tool's answer, None where it has none."""
    found = estimate_job(row.shape, row.job, row.card)
    said: dict[str, int | None] = {"gpudoctor": found.total_bytes}
    said |= {rival.name: rival.bytes for rival in rivals(found)}
    said["accelerate"] = accelerate(found) or said["accelerate"]
    if said["DeepSpeed helper"] is not None:
        said["DeepSpeed helper"] = deepspeed(found) or said["DeepSpeed helper"]
    job, cells = row.job, row.cells
    return {
        "source": f"{cells['source']}, {cells['source_path'].rsplit('/', 1)[-1]}, row {cells['row']}",
        "job": f"{row.shape.name} {job.method} {job.batch}x{job.seq}"
        + (f", {job.world} GPUs {job.parallel}" if job.world > 1 else ""),
        "measured": round(row.measured or 0), "answers": said,
    }  # fmt: skip


def accelerate(found: Estimate) -> int | None:
    """What `accelerate estimate-memory` prints for training with Adam; None without the package."""
    try:
        command = importlib.import_module("accelerate.commands.estimate")
        utils = importlib.import_module("accelerate.utils")
        import torch
        from transformers import AutoModelForCausalLM

        from gpudoctor.estimate.real import hf_config
    except ImportError:
        return None
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(hf_config(found.shape), dtype=torch.float32)
    total, _ = utils.calculate_maximum_sizes(model)
    named = "float32" if found.job.dtype == "fp32" else "float16"  # its word for any 16 bits
    return int(max(command.estimate_training_usage(total, named).values()))


def deepspeed(found: Estimate) -> int | None:
    """What DeepSpeed's helper returns for the GPU; None without the package."""
    try:
        three = importlib.import_module("deepspeed.runtime.zero.stage3")
        two = importlib.import_module("deepspeed.runtime.zero.stage_1_and_2")
    except ImportError:
        return None
    job, count = found.job, found.shape.parameters.total
    if job.parallel in {"zero3", "fsdp", "fsdp2"}:
        largest = max(found.shape.layer_parameters, found.shape.parameters.embedding)
        return int(
            three.estimate_zero3_model_states_mem_needs(
                total_params=count, largest_layer_params=largest, num_gpus_per_node=job.gpus,
                num_nodes=job.nodes, cpu_offload=False, cpu_offload_params=False, zero_init=True,
            )[1]
        )  # fmt: skip
    return int(
        two.estimate_zero2_model_states_mem_needs(
            total_params=count, num_gpus_per_node=job.gpus, num_nodes=job.nodes, cpu_offload=False
        )[1]
    )


def how() -> dict[str, str]:
    """Which tool answered by its own code, and in which release."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("accelerate", "deepspeed"):
        try:
            found[name] = f"its own code, {version(name)}"
        except PackageNotFoundError:
            found[name] = "its published formula (not installed)"
    return found


def summary(answers: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For each tool: rows answered, median, smallest and largest of answer over measured, median miss."""
    found: dict[str, dict[str, Any]] = {}
    for name in answers[0]["answers"]:
        ratios = [
            each["answers"][name] / each["measured"] for each in answers if each["answers"][name] is not None
        ]
        found[name] = {"rows": len(ratios)}
        if ratios:
            found[name] |= {
                "median": round(statistics.median(ratios), 3), "least": round(min(ratios), 3),
                "most": round(max(ratios), 3),
                "mdape": round(statistics.median(abs(ratio - 1) for ratio in ratios), 4),
            }  # fmt: skip
    return found


def shown(report: dict[str, Any], markdown: bool) -> str:
    """The table for people: GiB, and each answer over the measured peak."""
    names = list(report["tools"])
    heads = ["job", "measured", *names]
    rows = [heads]
    for each in report["rows"]:
        cells = [each["job"], f"{each['measured'] / GIB:.2f}"]
        for name in names:
            said = each["answers"][name]
            cells.append("none" if said is None else f"{said / GIB:.2f} ({said / each['measured']:.2f})")
        rows.append(cells)
    miss = [report["tools"][name] for name in names]
    last = [f"{each['mdape']:.1%} ({each['rows']})" if "mdape" in each else "none (0)" for each in miss]
    rows.append(["median miss (rows)", "", *last])
    if markdown:
        rows.insert(1, ["---", *["--:"] * (len(heads) - 1)])
        lines = [f"| {' | '.join(row)} |" for row in rows]
    else:
        sizes = [max(len(row[at]) for row in rows) for at in range(len(heads))]
        lines = [
            "  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows
        ]
    notes = [f"{name}: {text}" for name, text in report["how"].items()]
    sources = [f"{each['job']}: {each['source']}" for each in report["rows"]]
    return "\n".join(
        [*lines, "", "GiB on one GPU, in brackets over measured. " + "; ".join(notes) + ".", "", *sources]
    )


if __name__ == "__main__":
    sys.exit(main())
