"""Estimated against measured memory of synthetic jobs, by instant: the programs of `gpudoctor verify --model`.

    python benchmarks/synthetic_memory.py [--output FILE.csv] [--models NAME,...] [--seq N] [--batch N]
    python benchmarks/synthetic_memory.py --table FILE.csv

Each row is a program that `gpudoctor verify --model` writes (transformers, PEFT and bitsandbytes themselves,
random weights), run for three steps under the meter, on this machine's card or its CPU. The set is five jobs of
two small models: full training with and without checkpointing, LoRA, QLoRA where bitsandbytes is installed, and
full training by DeepSpeed's engine (ZeRO 2, bf16) where that is. `--table` prints a file's peaks in Markdown.
"""

import argparse
import csv
import datetime
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from gpudoctor.errors import DoctorError
from gpudoctor.estimate import TrainingJob, lookup
from gpudoctor.estimate.measure import MeasuredEstimate, compare
from gpudoctor.estimate.measure.start_measurement import measure_program
from gpudoctor.estimate.synthetic import plan, write
from gpudoctor.estimate.synthetic.deepspeed import ZERO, made
from gpudoctor.estimate.synthetic.local_device import here
from gpudoctor.estimate.synthetic.write_program import ask

MODELS = "pythia-70m,smollm2-135m"
JOBS: dict[str, dict[str, Any]] = {
    "full": {"method": "full", "checkpointing": "none"},
    "full, checkpointing": {"method": "full"},
    "lora": {"method": "lora"},
    "qlora": {"method": "qlora"},
    "full, deepspeed": {"method": "full", "parallel": "zero2", "master_weights": True},
}
"""Jobs by name; what is not said is as `gpudoctor estimate` has it (bf16, AdamW, SDPA, checkpointing)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the set; the exit code is 0 when every row was measured, else 1."""
    options = _parser().parse_args(arguments)
    if options.table:
        print(_table(options.table))
        return 0
    place = here()
    rows: list[tuple[str, str, MeasuredEstimate]] = []
    left_out = 0
    for model in options.models.split(","):
        for name, fields in JOBS.items():
            try:
                found = _one(model, {**fields, "seq": options.seq, "batch": options.batch}, place)
            except DoctorError as error:
                print(f"{model} {name}: left out: {error}", file=sys.stderr)
                left_out += 1
                continue
            rows.append((model, name, found))
            peak = next((row.ratio for row in found.rows if row.instant == "peak"), float("nan"))
            print(f"{model} {name}: {found.measurement.ending.value}, peak {peak:.4f}", file=sys.stderr, flush=True)
    with open(options.output, "w", encoding="utf-8", newline="") if options.output else sys.stdout as stream:
        _write(rows, options, stream)
    _summary(rows)
    return 1 if left_out or any(not found.rows for _, _, found in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default=MODELS, metavar="NAMES", help=f"presets (default: {MODELS})")
    parser.add_argument("--seq", type=int, default=256, metavar="N", help="tokens in a row (default: 256)")
    parser.add_argument("--batch", type=int, default=2, metavar="N", help="rows in a batch (default: 2)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table to FILE")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the peaks of such a file, in Markdown")
    return parser


def _one(model: str, fields: dict[str, Any], place: Any) -> MeasuredEstimate:
    """Write one program, run it, compare. Raises `DoctorError` for what cannot run here."""
    shape, training = lookup(model).preset.shape, TrainingJob(**fields)
    engine = made(training, shape) if training.parallel in ZERO else None
    job = plan(shape, training, place, engine=engine)
    with tempfile.TemporaryDirectory(prefix="gpudoctor-synthetic-") as name:
        folder = Path(name)
        written = write(job, ask(job), folder, title=model, origin="benchmarks/synthetic_memory.py")
        (folder / "memory").mkdir()
        found = measure_program(written.command, written.path, place.kind, folder=folder / "memory", limit=1800)
    if found.said:
        print(f"{model}: {found.said} (reached: {found.reached})", file=sys.stderr)
    return compare(job.estimate, found, program=True)


def _write(rows: Sequence[tuple[str, str, MeasuredEstimate]], options: argparse.Namespace, stream: TextIO) -> None:
    """One line an instant; machine, versions and date in a comment on top."""
    machine = next((found.measurement.machine for _, _, found in rows if found.measurement.machine), None)
    if machine is not None:
        versions = ", ".join(f"{name} {release}" for name, release in machine.versions.items())
        today = datetime.date.today().isoformat()
        memory = f"{machine.bytes / 2**30:.0f} GiB"
        stream.write(f"# {machine.name}, {os.cpu_count()} cores, {memory}; {versions}; {today}\n")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("model", "job", "seq", "batch", "instant", "estimated_bytes", "measured_bytes", "ratio"))
    for model, name, found in rows:
        for row in found.rows:
            cells = (row.instant, row.predicted, row.measured, round(row.ratio, 5))
            writer.writerow((model, name, options.seq, options.batch, *cells))


def _table(path: Path) -> str:
    """Estimated and measured peak of every job in a file, below its machine."""
    first, *lines = path.read_text("utf-8").splitlines()
    peaks = [row for row in csv.DictReader(lines) if row["instant"] == "peak"]
    found = [
        first.removeprefix("# "),
        "",
        "| model | job | tokens | estimated | measured | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for row in peaks:
        sizes = [f"{int(row[key]) / 2**20:,.0f} MiB" for key in ("estimated_bytes", "measured_bytes")]
        cells = [row["model"], row["job"], f"{row['batch']} x {row['seq']}", *sizes, f"{float(row['ratio']):.3f}"]
        found.append(f"| {' | '.join(cells)} |")
    return "\n".join(found)


def _summary(rows: Sequence[tuple[str, str, MeasuredEstimate]]) -> None:
    """By instant: rows, median of estimated over measured, median and largest miss."""
    ratios: dict[str, list[float]] = {}
    for _, _, found in rows:
        for row in found.rows:
            ratios.setdefault(row.instant, []).append(row.ratio)
    print(f"{'instant':10}{'rows':>6}{'median':>9}{'MdAPE':>8}{'under':>8}{'over':>8}", file=sys.stderr)
    for name, each in ratios.items():
        misses = [abs(ratio - 1) for ratio in each]
        print(
            f"{name:10}{len(each):>6}{statistics.median(each):>9.4f}{statistics.median(misses):>8.2%}"
            f"{min(min(each) - 1, 0):>8.1%}{max(max(each) - 1, 0):>8.1%}",
            file=sys.stderr,
        )


if __name__ == "__main__":
    sys.exit(main())
