"""Predicted against measured, by instant, on whatever card is here: a table of real steps.

    python benchmarks/estimate_gpu.py [--cpu] [--only WORD] [--output FILE.csv|.json] [--seconds 600]
    python benchmarks/estimate_gpu.py --cpu --anew benchmarks/data/real-steps-cpu.csv

Each row runs `gpudoctor.estimate.measure` (a model with random weights, three real steps, in a child process).
The set for a card has full training, LoRA and QLoRA of 7B, small models in full, checkpointing on and off, SDPA
and eager attention, several batches and sequences; what the card does not hold by the estimate is left out and
listed with its bytes. `--cpu` runs a set for the CPU. `--plan` prints the set and runs nothing. `--anew` runs
nothing either: it takes what a table of the same set measured, and predicts with the formulas of today.
"""

import argparse
import csv
import datetime
import json
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gpudoctor.errors import DoctorError
from gpudoctor.estimate import Device, Estimate, estimate
from gpudoctor.estimate.measure import JobMeasurement, MeasuredEstimate, compare, measure
from gpudoctor.estimate.measure.cpu import on_cpu
from gpudoctor.estimate.measure.start_measurement import host_need

Options = dict[str, Any]
LLAMA = {
    "hidden": 512,
    "layers": 8,
    "heads": 8,
    "kv_heads": 2,
    "head_dim": 64,
    "intermediate": 1408,
    "vocab": 32000,
}
"""A small Llama with a usual vocabulary: the instants stand to each other as in a large one."""


def gpu_set() -> list[Options]:
    """Configurations for one card, from 16 GiB up."""
    seven = {"model": "llama-2-7b"}
    small, mid = {"model": "qwen2.5-0.5b", "method": "full"}, {"model": "tinyllama-1.1b", "method": "full"}
    plain, lora, qlora = {"checkpointing": False}, {**seven, "method": "lora"}, {**seven, "method": "qlora"}
    narrow = {"lora_targets": "q,k,v,o"}
    return [
        {**lora, "seq": 1024}, {**lora, "seq": 2048}, {**lora, "seq": 2048, "batch": 4},
        {**lora, **narrow, "seq": 2048}, {**lora, "seq": 1024, **plain},
        {**lora, "seq": 1024, "attention": "eager"}, {**lora, "lora_dropout": 0.1},
        {**lora, "mixed_precision": "bf16"}, {**lora, "accumulate": 4, "seq": 1024},
        {**qlora, "seq": 1024}, {**qlora, "seq": 2048}, {**qlora, "kbit_prepare": False}, {**qlora, **narrow},
        {"model": "llama-3-8b", "method": "lora"}, {"model": "mistral-7b-v0.1", "method": "qlora"},
        {**small, "seq": 1024}, {**small, "seq": 1024, **plain}, {**small, "seq": 2048, "batch": 4},
        {**small, "attention": "eager", "seq": 1024}, {**small, "dtype": "fp32", "mixed_precision": "bf16"},
        {**small, "optimizer": "adamw-8bit"}, {**mid, "seq": 2048}, {**mid, "seq": 2048, **plain},
        {**mid, "optimizer": "adamw-fused"}, {**mid, "optimizer": "sgd"},
        {"model": "qwen3-0.6b", "method": "full"}, {"model": "gemma-2-2b", "method": "lora"},
        {**seven, "method": "full"}, {"model": "llama-3-8b", "method": "full"},
    ]  # fmt: skip


def cpu_set() -> list[Options]:
    """Configurations that two cores finish in minutes."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the set; the exit code is 0 when every row that was tried was measured, else 1."""
    options = _parser().parse_args(arguments)
    card = None if options.cpu else card_here()
    if card is None and not options.cpu and not options.plan:
        print("no CUDA card that torch can use here; --cpu runs a set for the CPU", file=sys.stderr)
        return 2
    chosen = [each for each in (cpu_set() if options.cpu else gpu_set()) if options.only in title(each)]
    if options.plan:
        print(*(f"{title(each)}: {size(each, card):,} B" for each in chosen), sep="\n")
        return 0
    try:
        known = Known.read(options.anew) if options.anew else None
    except (OSError, DoctorError) as error:
        print(error, file=sys.stderr)
        return 2
    rows, failed = [], 0
    for each in chosen:
        row = known.row(each, card) if known else one(each, card, options.seconds)
        failed += row["ending"] not in {"complete", "left out"}
        rows.append(row)
        print(_line(row), file=sys.stderr, flush=True)
    said = known.said if known else described(rows)
    report = {"said": said, "machine": rows_machine(rows), "rows": rows}
    _write(report, options.output)
    summary(rows, sys.stdout if options.output else sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cpu", action="store_true", help="the set for the CPU")
    parser.add_argument("--only", default="", metavar="WORD", help="configurations with this in their title")
    parser.add_argument("--plan", action="store_true", help="print the set and run nothing")
    parser.add_argument("--anew", type=Path, metavar="FILE", help="predict again for a table's measured bytes")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table to FILE (.csv or .json)")
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit of each configuration")
    return parser


def card_here() -> Device | None:
    """The first card that torch can use."""
    import torch

    if not torch.cuda.is_available():
        return None
    found = torch.cuda.get_device_properties(0)
    return Device(name=found.name, bytes=found.total_memory, capability=(found.major, found.minor))


def title(options: Options) -> str:
    """A configuration in a few words."""
    model = options.get("model") or f"llama {options['layers']}x{options['hidden']}"
    parts = [model, options["method"], f"{options.get('batch', 1)}x{options.get('seq', 2048)}"]
    parts.append("checkpointing" if options.get("checkpointing", True) else "all kept")
    said = {*LLAMA, "model", "method", "batch", "seq", "checkpointing"}
    return " ".join([*parts, *(f"{key}={value}" for key, value in options.items() if key not in said)])


def size(options: Options, card: Device | None) -> int:
    """The estimate's peak in bytes."""
    return estimate(gpu=card, **options).total_bytes


def one(options: Options, card: Device | None, seconds: float) -> dict[str, Any]:
    """Estimate and measure one configuration; what goes wrong is a row with its reason."""
    row: dict[str, Any] = {"title": title(options), "ending": "failed", "said": "", "instants": []}
    try:
        found = estimate(gpu=card, **options)
        if card is not None and found.fits is False:
            return {**row, "ending": "left out", "said": f"{found.total_bytes:,} B do not fit {card.name}"}
        done = measure(
            found.shape, found.job, device="cpu" if card is None else "cuda", limit=seconds,
            predicted=host_need(found),
        )  # fmt: skip
    except DoctorError as error:
        return {**row, "said": str(error)}
    return row | _told(found, done, compare(found, done))


def _told(found: Estimate, done: JobMeasurement, compared: MeasuredEstimate) -> dict[str, Any]:
    """What of a measurement goes into the table."""
    low, high = found.card.reserved
    return {
        "ending": done.ending.value, "said": done.said, "reached": done.reached,
        "seconds": round(done.seconds, 1),
        "machine": None if done.machine is None else
        {"kind": done.machine.kind, "name": done.machine.name, "bytes": done.machine.bytes,
         "versions": done.machine.versions},
        "reserved": done.reserved, "reserved_predicted": [low, high] if done.reserved is not None else None,
        "used": done.used, "context": done.context, "workspace": done.workspace,
        "instants": [
            {"instant": each.instant, "predicted": each.predicted, "measured": each.measured,
             "ratio": round(each.ratio, 5)}
            for each in compared.rows
        ],
    }  # fmt: skip


def rows_machine(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The machine of the rows, in general words: model, cores, memory, libraries."""
    found = next((row["machine"] for row in rows if row.get("machine")), None) or {}
    return {**found, "cores": os.cpu_count()}


def described(rows: Iterable[dict[str, Any]]) -> str:
    """Machine, versions and date in a line."""
    machine = rows_machine(rows)
    versions = ", ".join(f"{name} {release}" for name, release in machine.get("versions", {}).items())
    memory = f"{machine.get('bytes', 0) / 2**30:.0f} GiB"
    today = datetime.date.today().isoformat()
    return f"{machine.get('name', '?')}, {machine['cores']} cores, {memory}; {versions}; {today}"


@dataclass(frozen=True, kw_only=True)
class Known:
    """A table that was measured before."""

    said: str
    """Its first line: machine, versions, date."""
    measured: dict[tuple[str, str], int]
    """Configuration and instant to bytes."""

    @classmethod
    def read(cls, path: Path) -> "Known":
        """From a CSV file that this program wrote."""
        with path.open(encoding="utf-8", newline="") as stream:
            said = stream.readline().removeprefix("# ").strip()
            reader = csv.DictReader(stream)
            if "measured_bytes" not in (reader.fieldnames or ()):
                raise DoctorError(f"{path}: no column measured_bytes; --anew takes a table of this program")
            rows = [row for row in reader if row["measured_bytes"]]
        measured = {(row["configuration"], row["instant"]): int(row["measured_bytes"]) for row in rows}
        return cls(said=said, measured=measured)

    def row(self, options: Options, card: Device | None) -> dict[str, Any]:
        """A configuration's measured bytes beside the estimate of today."""
        found, name = estimate(gpu=card, **options), title(options)
        found = on_cpu(found) if card is None else found
        predicted = {instant.name: instant.bytes for instant in found.instants}
        predicted |= {"static": found.static, "peak": found.peak.bytes}
        instants = [
            {"instant": instant, "predicted": ours, "measured": self.measured[name, instant],
             "ratio": round(ours / self.measured[name, instant], 5)}
            for instant, ours in predicted.items()
            if (name, instant) in self.measured
        ]  # fmt: skip
        return {
            "title": name,
            "ending": "complete" if instants else "left out",
            "said": "",
            "instants": instants,
        }


def _write(report: dict[str, Any], path: Path | None) -> None:
    if path is not None and path.suffix == ".json":
        path.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    elif path is not None:
        with path.open("w", encoding="utf-8", newline="") as stream:
            _csv(report, stream)
    else:
        _csv(report, sys.stdout)


def _csv(report: dict[str, Any], stream: TextIO) -> None:
    """One line an instant; machine, versions and date in a comment on top."""
    stream.write(f"# {report['said']}\n")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("configuration", "ending", "instant", "predicted_bytes", "measured_bytes", "ratio"))
    for row in report["rows"]:
        for each in row["instants"]:
            writer.writerow((row["title"], row["ending"], *each.values()))
        if not row["instants"]:
            writer.writerow((row["title"], f"{row['ending']}: {row['said']}", "", "", "", ""))


def _line(row: dict[str, Any]) -> str:
    found = " ".join(f"{each['instant']} {each['ratio']:.4f}" for each in row["instants"])
    return f"{row['title']}: {row['ending']} {row['said']} {found}"


def summary(rows: Sequence[dict[str, Any]], stream: TextIO) -> None:
    """By instant: rows, median of predicted over measured, median and largest miss."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        for each in row["instants"]:
            ratios.setdefault(each["instant"], []).append(each["ratio"])
    print(f"{'instant':14}{'rows':>6}{'median':>9}{'MdAPE':>8}{'p90':>8}{'under':>8}{'over':>8}", file=stream)
    for name, found in ratios.items():
        misses = sorted(abs(ratio - 1) for ratio in found)
        ninth = misses[min(int(0.9 * len(misses)), len(misses) - 1)]
        print(
            f"{name:14}{len(found):>6}{statistics.median(found):>9.4f}{statistics.median(misses):>8.2%}{ninth:>8.2%}"
            f"{min(min(found) - 1, 0):>8.1%}{max(max(found) - 1, 0):>8.1%}",
            file=stream,
        )
    done = sum(row["ending"] == "complete" for row in rows)
    print(f"{done} of {len(rows)} configurations measured", file=stream)


if __name__ == "__main__":
    sys.exit(main())
