"""train-doctor on the same programs, its verdicts read as generously as they can be.

What it calls a finding counts as the right one for every ailment that its title could mean. Its suggestion to
try `torch.compile`, which it gives on almost every program, is set aside: neither a wrong first place nor a
false alarm. That a command died before its window closed, which it reports in a side note, counts as having
named the death. It names no lines.
"""

import json
import subprocess
from pathlib import Path

PACKAGE = "train-doctor"
SUGGESTIONS = frozenset({"no_torch_compile"})
DIED = "exited"
"""Our word for its note that the command ended with an error."""
MEANS: dict[str, frozenset[str]] = {
    "dataloader_bound": frozenset(
        {"loader-bound", "slow-collate", "workers-respawned", "dataset-reopens", "straggler"}
    ),
    "cpu_bound_preprocessing": frozenset(
        {"loader-bound", "slow-collate", "workers-respawned", "dataset-reopens", "straggler"}
    ),
    "host_sync_in_loop": frozenset({"per-sample-metrics", "garbage-collection"}),
    "checkpoint_in_hot_loop": frozenset({"checkpoint-too-often"}),
    "logging_in_hot_loop": frozenset({"logging-each-step", "log-fsync", "histograms", "step-time-drift"}),
    "ddp_accumulation_without_no_sync": frozenset({"redundant-collectives"}),
    DIED: frozenset({"exception", "killed", "segfault", "worker-dies"}),
}
"""Its finding to the ailments that it may mean."""


def examine(python: Path, command: list[str], folder: Path, whole: bool) -> tuple[int, list[str], str]:
    """Exit code, what it found in its own order, and what went wrong ("" when nothing did).

    `whole` opens its window, 50 steps and two seconds by default, to the whole run: for programs that die.
    """
    words = [str(python.parent / PACKAGE), "profile", "--json", "--timeout", "240"]
    words += ["--steps", "100000"] if whole else []
    words += ["--", str(python), *command]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return -1, [], "no end within 300 s"
    try:
        told = json.loads(done.stdout)
    except ValueError:
        return done.returncode, [], f"no report: {(done.stdout + done.stderr)[-300:]}"
    found = [item["id"] for item in told.get("findings") or () if item["id"] not in SUGGESTIONS]
    if any("exited with code" in note or "killed" in note for note in told.get("limits") or ()):
        found.insert(0, DIED)
    return done.returncode, found, ""
