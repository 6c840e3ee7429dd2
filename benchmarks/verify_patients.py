"""Sick programs through `gpudoctor verify --keep`: cause, proof, patch, and the step time of the well twin.

    python benchmarks/verify_patients.py [--only NAME,...] [--pairs N] [--budget TIME] [--json FILE]
        [--keep DIR] [--list]

Every patient (`trials/patients`) is copied into an empty folder and treated as a user would: one call of
`gpudoctor verify --keep`. It is cured when the cause came first, a remedy of it is proven (interval, loss),
the patch was applied, `gpudoctor run` of the mended program names the cause at most in a note, and its step
takes at most 15 % longer than the well twin's: the median of at least five pairs of runs one right after the
other, each timed by the program itself, with no probe near it. Results are written after each patient. Those that
are in FILE already are done anew only if `--only` names them.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from trials.corpus import PATIENTS, Patient
from trials.cure import treat

DATA = Path(__file__).parent / "data" / "verify-patients.json"


def main() -> int:
    """Treat the patients; exit code 1 when one of ours is not cured."""
    given = arguments()
    chosen = [item for item in PATIENTS if not given.only or item.name in given.only]
    if given.list:
        print("\n".join(f"{item.name}: {item.what}" for item in PATIENTS))
        return 0
    results = load(given.json)
    for patient in chosen:
        if patient.missing:
            print(f"{patient.name}: skipped, {patient.needs} is not installed")
            continue
        if given.only or patient.name not in results["gpudoctor"]:
            results["gpudoctor"][patient.name] = examine(patient, given)
            save(given.json, results)
            print(line(results["gpudoctor"][patient.name]), flush=True)
    mine = [results["gpudoctor"][item.name] for item in chosen if item.name in results["gpudoctor"]]
    cured = sum(item["cured"] for item in mine)
    print(f"{cured} of {len(mine)} cured")
    return 0 if cured == len(mine) else 1


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="NAME,...")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--budget", default="6m", help="of each verify")
    parser.add_argument("--json", type=Path, default=DATA, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the folders of the patients there")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def examine(patient: Patient, given: argparse.Namespace) -> dict[str, Any]:
    """One patient, treated."""
    base = Path(tempfile.mkdtemp(prefix=f"{patient.name}-"))
    try:
        outcome = treat(patient, base, given.pairs, given.budget, lambda words: status(patient.name, words))
        return {**asdict(outcome), "ratio_to_well": outcome.ratio, "cured": outcome.cured}
    finally:
        status("", "")
        if given.keep:
            target = given.keep / patient.name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(base, target)
        shutil.rmtree(base, ignore_errors=True)


def status(name: str, words: str) -> None:
    """What is being done, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{name}  {words}" if name else "\r\033[K")
        sys.stderr.flush()


def line(item: dict[str, Any]) -> str:
    """One row of the table."""
    proof = item.get("proof") or item
    ratio = f"{proof['ratio']:.2f}x [{proof['low']:.2f}, {proof['high']:.2f}]" if proof.get("ratio") else "-"
    well = f"{item['ratio_to_well']:.2f}" if item.get("ratio_to_well") else "-"
    marks = " ".join(name if item.get(name) else f"NOT {name}" for name in MARKS if name in item)
    seconds = item.get("verify_seconds") or item.get("seconds") or 0.0
    return f"{item['name']:<32}{ratio:<22}{well:>6} of well {seconds:6.0f} s  {marks}  {item['error']}"


MARKS = ("found", "proven", "kept", "healthy", "reached")


def load(path: Path) -> dict[str, Any]:
    """What is known already."""
    if path.exists():
        return dict(json.loads(path.read_text(encoding="utf-8")))
    return {"gpudoctor": {}}


def save(path: Path, results: dict[str, Any]) -> None:
    """Write everything known so far."""
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
