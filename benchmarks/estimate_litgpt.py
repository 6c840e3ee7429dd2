"""What litgpt's published configs say that a table of measured peaks leaves out; used by `estimate_rows.py`.

`data/litgpt-config-hub.csv` holds the settings of every `config_hub/finetune/*/*.yaml` of Lightning-AI/litgpt
(26857050): a row of the table names its yaml. The 2023 tables (tutorials/resource-tables.md) say in their text
that a step has 128 samples.
"""

import csv
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).parent / "data" / "litgpt-config-hub.csv"
SPELLINGS = {"gemma2b/qlora.yaml": "gemma2-2b/qlora.yaml"}
"""Names in the published table that no file has."""
SAMPLES_2023 = 128
"""Samples in a step, all GPUs together: "with a minibatch size of 128" (tutorials/resource-tables.md)."""

PROMPT_2023, ANSWER_2023 = 6, 50
"""Tokens of the prompt "Hello, my name is" and of the answer, generate/base.py's defaults in 2023 (8641822)."""


def config_of(cells: dict[str, str]) -> dict[str, str] | None:
    """The yaml that a row names; None where it names none."""
    named = re.search(r"config_hub/finetune/.*\(config (\S+)\)", cells["source_path"])
    if not named:
        return None
    name = named.group(1).lower()
    return _configs().get(SPELLINGS.get(name, name))


@lru_cache(maxsize=1)
def _configs() -> dict[str, dict[str, str]]:
    with CONFIGS.open(encoding="utf-8", newline="") as file:
        return {row["config"].lower(): row for row in csv.DictReader(file)}


def completed(cells: dict[str, str]) -> dict[str, str]:
    """The row with what its yaml says: GPUs of the run (the published machine may have more), rank, targets."""
    config = config_of(cells)
    if config is None:
        return cells
    machine = int(re.sub(r"\D", "", cells["num_gpus"]) or 1)
    gpus = min(int(config["devices"]), machine)
    return {
        **cells,
        "model": config["checkpoint"].rsplit("/", 1)[-1] if "gemma-2" in config["checkpoint"] else cells["model"],
        "num_gpus": str(gpus),
        "parallelism": "FSDP" if gpus > 1 else "none",
        "lora_r": config["lora_r"],
        "lora_targets": ",".join(config["lora_targets"].split()),
    }


def options(cells: dict[str, str], gpus: int, batch: int) -> dict[str, Any]:
    """Fields of the job beside those that every source's rows give."""
    config = config_of(cells)
    found: dict[str, Any] = {}
    if cells["task"] == "inference":
        if cells["source_path"].endswith("resource-tables.md"):  # the stated lengths are those of the training data
            found |= {"seq": PROMPT_2023, "context": PROMPT_2023 + ANSWER_2023}
        return found
    found["loss"] = "chunked"
    samples = 0
    if config is not None:
        samples = int(config["global_batch_size"])
        if config["lora_dropout"]:
            found["lora_dropout"] = float(config["lora_dropout"])
    elif cells["source_path"].endswith("resource-tables.md"):
        samples = SAMPLES_2023
    found["accumulate"] = max(samples // (gpus * batch), 1)
    return found
