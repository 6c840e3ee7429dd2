"""How long an estimate takes, whole process, beside accelerate's command and DeepSpeed's helper.

    python benchmarks/estimate_speed.py [--rounds 7] [--format text|json|markdown]

Run it with the interpreter of an environment that has gpudoctor and, for the neighbours' rows, accelerate and
DeepSpeed; what is missing is left out and said so. Commands are interleaved round by round, so that a busy
machine slows all of them alike; the table shows medians, least and most. accelerate's command needs a model
from the hub or a local folder: it gets a folder with the config of the same 7B model, which it builds on the
meta device. Of DeepSpeed, the helper's own function is called with the model's counts: its row is the import.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpudoctor.estimate import lookup

LEAST_ROUNDS = 7
GOALS = {"--model 7b": 0.15, "a YAML config": 0.15, "--fit": 0.5, "1,000 estimates in Python": 1.0}
YAML = """\
model_name_or_path: meta-llama/Llama-2-7b-hf
stage: sft
finetuning_type: lora
lora_rank: 16
cutoff_len: 2048
per_device_train_batch_size: 1
bf16: true
"""
CONFIG = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000, "tie_word_embeddings": False,
    "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096,
}  # fmt: skip
THOUSAND = """
import time
from gpudoctor.estimate import TrainingJob, estimate_job, lookup
shape = lookup("7b").preset.shape
start = time.perf_counter()
for at in range(1000):
    estimate_job(shape, TrainingJob(method=("full", "lora", "qlora")[at % 3], seq=512 + at, batch=1 + at % 8))
print(time.perf_counter() - start)
"""
HELPER = """
from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as needs
print(needs(total_params={total}, largest_layer_params={largest}, num_gpus_per_node=1, num_nodes=1,
            cpu_offload=False, cpu_offload_params=False, zero_init=True))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit code is 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS)
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows, missing = commands(Path(folder))
        taken: dict[str, list[float]] = {name: [] for name in rows}
        for _ in range(options.rounds):
            for name, command in rows.items():
                taken[name].append(seconds(name, command))
    report = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "rounds": options.rounds, "missing": missing,
        "rows": [
            {"name": name, "median": round(statistics.median(found), 3), "least": round(min(found), 3),
             "most": round(max(found), 3), "goal": GOALS.get(name)}
            for name, found in taken.items()
        ],
    }  # fmt: skip
    print(json.dumps(report, indent=1) if options.format == "json" else shown(report, options.format == "markdown"))
    return 1 if any(row["goal"] and row["median"] > row["goal"] for row in report["rows"]) else 0


def commands(folder: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Name of each row to its command, and what is left out and why."""
    config, model = folder / "train.yaml", folder / "model"
    config.write_text(YAML, "utf-8")
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    ours = [sys.executable, "-m", "gpudoctor.cli", "estimate"]
    installed = Path(sys.executable).with_name("gpudoctor")
    if installed.exists():
        ours = [str(installed), "estimate"]
    rows = {
        "--model 7b": [*ours, "--model", "7b"],
        "a YAML config": [*ours, str(config), "--gpu", "24GiB"],
        "--fit": [*ours, "--model", "7b", "--gpu", "24GiB", "--fit"],
        "1,000 estimates in Python": [sys.executable, "-c", THOUSAND],
    }
    missing = []
    if importlib.util.find_spec("accelerate"):
        begin = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "estimate-memory"]
        rows["accelerate estimate-memory --help"] = [*begin, "--help"]
        rows["accelerate estimate-memory, 7B"] = [*begin, str(model), "--library_name", "transformers"]
    else:
        missing.append("accelerate is not installed")
    if importlib.util.find_spec("deepspeed"):
        shape = lookup("7b").preset.shape
        code = HELPER.format(total=shape.parameters.total, largest=shape.layer_parameters)
        rows["DeepSpeed estimate_zero3, 7B"] = [sys.executable, "-c", code]
    else:
        missing.append("DeepSpeed is not installed: a formula cannot be timed")
    return rows, missing


def seconds(name: str, command: Sequence[str]) -> float:
    """Wall-clock seconds of the whole process; of the thousand estimates, those in Python alone."""
    surroundings = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=surroundings, check=False)
    taken = time.perf_counter() - start
    if done.returncode not in {0, 1}:
        raise SystemExit(f"{name} failed with {done.returncode}: {done.stderr[-500:]}")
    if name.startswith("1,000"):
        return float(done.stdout)
    return taken


def shown(report: dict[str, Any], markdown: bool) -> str:
    """The table for people, in seconds."""
    rows = [["", "median", "least", "most", "goal"]]
    for row in report["rows"]:
        goal = "" if row["goal"] is None else f"{row['goal']:g}"
        rows.append([row["name"], *(f"{row[key]:.3f}" for key in ("median", "least", "most")), goal])
    if markdown:
        rows.insert(1, ["---", "--:", "--:", "--:", "--:"])
        lines = [f"| {' | '.join(row)} |" for row in rows]
    else:
        lines = [f"{row[0]:40}" + "".join(f"{cell:>9}" for cell in row[1:]) for row in rows]
    said = f"seconds, {report['rounds']} interleaved rounds; {report['machine']}"
    return "\n".join([*lines, "", "; ".join([said, *report["missing"]])])


if __name__ == "__main__":
    sys.exit(main())
