"""Rows of a table of measured peaks, turned into jobs; used by `estimate_accuracy.py`.

A row says in words what ran (columns as in the header of the table). What it does not say is taken from the
defaults of the framework that it names, below, never from the measured value.
"""

import re
from dataclasses import dataclass
from typing import Any

from estimate_litgpt import completed
from estimate_litgpt import options as litgpt_options

from gpudoctor.errors import UsageError
from gpudoctor.estimate import Device, ModelShape, TrainingJob, device, lookup

EXACT = ("packed to exact", "fixed")
"""Beginnings of `seq_kind` that give the number of tokens; "input length" and "longest" are stated but
approximate."""
STATED = ("input length", "longest")

STACKS = (
    ("a100_80gb.csv", "hf-2024"), ("fms-hf-tuning", "hf-2024-11"), ("transformers 5", "hf"),
    ("lit-gpt", "litgpt-2024"), ("litgpt", "litgpt-2024"), ("torchtitan 2025", "torchtitan-2025"),
    ("torchtitan 2026", "torchtitan-2025"), ("training.md", "torchtitan-2025"), ("torchtitan", "torchtitan"),
    ("torchtune", "torchtune"), ("timm", "timm"), ("megatron", "megatron"), ("method_comparison", "hf"),
    ("2022", "hf-2023"), ("2023", "hf-2023"), ("qwen", "hf-2023"), ("swift", "hf-2023"),
    ("accelerate examples", "hf-2023"), ("fsdp_qlora", "hf-2024"), ("llama-recipes", "hf-2023"),
    ("glm", "hf-2023"),
)  # fmt: skip
"""What stands in source_path or framework, and which releases it means."""

LLAMA_RECIPES: dict[str, Any] = {
    "batch": 4, "seq": 2048, "checkpointing": "layer", "lora_rank": 8, "lora_targets": "q,v",
    "lora_dropout": 0.05,
}  # fmt: skip
"""What the command of the pull request leaves to the script: configs/training.py, fsdp.py, peft.py and
ft_datasets/utils.py (chunks of 2048 tokens) of July 2023 (569f8b79)."""

CARDS = {"A100": "A100 40GB", "H100": "H100 80GB", "T4-16GB": "T4", "V100-16GB": "V100 16GB", "": ""}
SPELLINGS = (
    (r"\(.*\)", ""), (r"\s+(?=b\b)", ""), (r"^phi-1\.5 1\.3b$", "phi-1.5"),
    (r"^stablelm alpha 3b$", "stablelm-alpha-3b"), (r"^llama2-1b$", "tinyllama-1.1b"),
    (r"-gptq(-4bit-128g)?$", ""), (r"qwen1half", "qwen1.5"), (r"^llama2-", "llama-2-"),
    (r"^llama 2 ", "llama-2-"), (r"^gpt_bigcode-", ""), (r"^techxgenus/|^thebloke/", ""),
    (r"-chat(-int[48])?$", ""),
)  # fmt: skip


class Unmapped(Exception):
    """A row that the estimator cannot answer, with the reason."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row that was mapped."""

    cells: dict[str, str]
    """The row as read."""
    shape: ModelShape
    """Its model."""
    job: TrainingJob
    """Its job."""
    card: Device | None
    """Its card."""
    length: str
    """`exact`, `stated`, `cap` or `unstated`: what is known of the number of tokens."""
    metric: str
    """`allocated`, `static`, `reserved`, `used`, `unstated` or `label`."""
    measured: float | None
    """Bytes on one GPU; None for a label."""


def metric_of(cells: dict[str, str]) -> str:
    """Which of our figures the row's metric is to be held against."""
    text = cells["metric"].lower()
    if cells["status"] in {"OOM", "fits"} or text == "none":
        return "label"
    if "static" in text:
        return "static"
    if "reserved" in text:
        return "reserved"
    if "allocated" in text or "active" in text or "memory summary" in text:
        return "allocated"
    if "nvidia-smi" in text or "nvml" in text:
        return "used"
    return "unstated"


def length_of(cells: dict[str, str]) -> str:
    """What is known of the number of tokens."""
    kind = cells["seq_kind"].lower()
    if cells.get("task") == "inference":
        return "stated"
    if not re.search(r"\d", cells["seq_len"]):
        return "unstated"
    if kind.startswith(EXACT):
        return "exact"
    if kind.startswith(STATED):
        return "stated"
    return "cap" if kind or "<" in cells["seq_len"] else "unstated"


def measured_of(cells: dict[str, str]) -> float | None:
    """Bytes on one GPU; where GB may be 10^9 or 2^30, the middle of both."""
    if not cells["value"]:
        return None
    value = float(cells["value"])
    unit = cells["unit"]
    if cells["value_gib"]:
        amount = float(cells["value_gib"]) * 2**30
    elif "unstated" in unit:
        amount = value * (1e9 + 2**30) / 2
    else:
        amount = value * {"B": 1, "MiB": 2**20, "GiB": 2**30, "GB (1e9)": 1e9}.get(unit, 1e9)
    if cells["scope"].startswith("sum"):
        amount /= max(int(re.sub(r"\D", "", cells["num_gpus"]) or 1), 1)
    return amount


def shape_of(cells: dict[str, str]) -> ModelShape:
    """The model; raises `Unmapped` when it is not known."""
    text = cells["model"].strip().lower()
    for pattern, replacement in SPELLINGS:
        text = re.sub(pattern, replacement, text).strip()
    for candidate in (text, text.rsplit("/", 1)[-1], re.sub(r"-chat$|-int[48]$", "", text.rsplit("/", 1)[-1])):
        try:
            found = lookup(candidate)
        except UsageError:
            continue
        if not found.assumption or found.preset.shape.name in candidate:
            return found.preset.shape
    raise Unmapped(f"no preset for {cells['model']!r}")


def row_of(cells: dict[str, str]) -> Row:
    """A row as a job; raises `Unmapped`."""
    if cells["task"] not in {"train", "inference"}:
        raise Unmapped(f"task {cells['task']!r} is not a training job")
    cells = completed(cells)
    shape = shape_of(cells)
    options = _options(cells, shape)
    try:
        job = TrainingJob(**options)
        job.check(shape)
    except UsageError as error:
        raise Unmapped(f"refused: {error}") from None
    return Row(
        cells=cells, shape=shape, job=job, card=_card(cells["gpu"]), length=length_of(cells),
        metric=metric_of(cells), measured=measured_of(cells),
    )  # fmt: skip


def _options(cells: dict[str, str], shape: ModelShape) -> dict[str, Any]:
    framework = cells["framework"].lower()
    stack = _stack(cells)
    method, quant = _method(cells)
    options: dict[str, Any] = {"stack": stack, "method": method}
    options |= _types(cells, stack)
    options |= _tokens(cells, shape, stack)
    options |= _parallel(cells)
    options |= _kernels(cells, stack)
    options["optimizer"] = _optimizer(cells)
    options["checkpointing"] = _checkpointing(cells, stack)
    if every := re.search(r"every (\d+)", cells["grad_ckpt"]):
        options |= {"checkpointing": "layer", "checkpoint_every": int(every.group(1))}
    if options.get("pp", 1) > 1:  # a local batch goes through the stages in as many micro batches
        options["batch"] = max(options["batch"] // options["pp"], 1)
    if method in {"lora", "qlora", "int8-lora", "gptq-lora"}:
        options |= _adapters(cells, stack)
    if stack.startswith("litgpt"):
        options |= litgpt_options(cells, options["gpus"], options["batch"])
        if shape.family == "gemma2":  # soft-capped scores: litgpt/model.py leaves SDPA there
            options["attention"] = "eager"
    if method == "qlora":
        options["quant"] = "fp4" if "fp4" in quant else "nf4"
        options["double_quant"] = ("double" in quant and "no double" not in quant) or "-dq" in quant
    if method == "gptq-lora" and "mixtral" in shape.name:
        options["quant_group"] = 0  # TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ, branch main: no groups
    if method in {"qlora", "int8-lora", "gptq-lora"}:
        prepared = (
            "prepare_model_for_kbit" in cells["notes"]
            or stack == "hf"
            or (stack == "hf-2023" and method != "gptq-lora")
        )
        options["kbit_prepare"] = prepared
        options["lora_fused"] = "peft" in framework and "foak" in framework
    if cells["source"].endswith("llama-cookbook PR #41"):
        options |= LLAMA_RECIPES | {"outputs_kept": "not kept" not in cells["notes"]}
    if stack == "hf" and "trainer stack" in framework:
        options["outputs_kept"] = True  # the source's loop: outputs = model(**batch); outputs.loss.backward()
    return options


def _stack(cells: dict[str, str]) -> str:
    path, framework = cells["source_path"].lower(), cells["framework"].lower()
    for needle, stack in STACKS:
        if path.endswith(needle) or needle in framework:
            return stack
    return "hf"


def _method(cells: dict[str, str]) -> tuple[str, str]:
    method, quant = cells["method"].lower(), cells["quant"].lower()
    if cells["task"] == "inference":
        if quant in {"", "none"}:
            return "full", quant
        return ("gptq-lora" if "gptq" in quant else "int8-lora" if "int8" in quant else "qlora"), quant
    if method in {"full", "pretrain full", "full fine-tuning", "sft", "full + galore", "galore"}:
        return "full", quant
    if "gptq" in quant or "awq" in quant or "aqlm" in quant:
        if "aqlm" in quant:
            raise Unmapped("AQLM bases have no formula here")
        return "gptq-lora", quant
    if method.startswith("qlora") or (
        method.startswith("lora") and ("nf4" in quant or "fp4" in quant or "4bit" in quant)
    ):
        return "qlora", quant
    if method.startswith("int8") or ("lora" in method and "int8" in quant):
        return "int8-lora", quant
    if method.startswith(("lora", "dora", "rslora", "neftune lora")) or method in {"lora+", "unsloth lora"}:
        return "lora", quant
    raise Unmapped(f"method {cells['method']!r} has no formula here")


def _types(cells: dict[str, str], stack: str) -> dict[str, Any]:
    weight, compute = cells["weight_dtype"].lower(), cells["compute"].lower()
    dtype = (
        "fp32"
        if "fp32" in weight and "master" not in weight
        else "fp16"
        if "fp16" in weight or weight == "float16"
        else "bf16"
    )
    mixed = "no"
    if "autocast" in compute and "no autocast" not in compute:
        mixed = "fp16" if "fp16" in compute else "bf16"
    elif "mixed" in compute or (not compute and stack == "hf-2023" and not weight):
        mixed = "bf16"
    if mixed != "no" and dtype != "fp32" and mixed != dtype:
        mixed = dtype
    return {"dtype": dtype, "mixed_precision": mixed}


def _tokens(cells: dict[str, str], shape: ModelShape, stack: str) -> dict[str, Any]:
    number = re.search(r"\d+", cells["seq_len"])
    seq = int(number.group()) if number else 512
    if shape.kind == "vision":
        seq = shape.max_positions
    if shape.positions == "learned" and shape.max_positions:  # packing stops at the tokenizer's limit
        seq = min(seq, shape.max_positions)
    batch = re.search(r"\d+", cells["micro_batch"])
    size = int(batch.group()) if batch else 2 if stack == "torchtune" else 1
    accumulate = re.search(r"gradient accumulation (\d+)", cells["notes"])
    found: dict[str, Any] = {"seq": seq, "batch": size, "accumulate": int(accumulate.group(1)) if accumulate else 1}
    if cells["task"] == "inference":
        found = {"seq": seq, "batch": 1, "mode": "inference", "context": seq, "concurrency": size}
    return found


def _parallel(cells: dict[str, str]) -> dict[str, Any]:
    text = cells["parallelism"]
    gpus = int(re.sub(r"\D", "", cells["num_gpus"]) or 0)
    if not gpus:
        raise Unmapped(f"number of GPUs is {cells['num_gpus']!r}")
    found: dict[str, Any] = {"gpus": gpus, "parallel": "none"}
    low = text.lower()
    if "device_map" in low:
        raise Unmapped("layers spread over GPUs by device_map have no formula here")
    if "sp4" in low:
        raise Unmapped("Ulysses sequence parallelism has no formula here")
    for key in ("tp", "cp", "pp"):
        degree = re.search(rf"\b{key}\s*(\d+)|(\d+)\s*x\s*{key}\b", low)
        explicit = re.search(rf"\b{key} ?(\d+)", low)
        if degree and explicit:
            found[key] = int(explicit.group(1))
    if "no_shard" in low or low.startswith("ddp"):
        found["parallel"] = "ddp"
    elif "fsdp2" in low:
        found["parallel"] = "fsdp2"
    elif "fsdp" in low:
        found["parallel"] = "fsdp"
    elif match := re.search(r"zero-?([123])", low):
        found["parallel"] = f"zero{match.group(1)}"
    elif low in {"", "none", "no tp", "tp 1"} or low.startswith("tp"):
        split = found.get("tp", 1) * found.get("cp", 1) * found.get("pp", 1)
        found["parallel"] = "ddp" if gpus > split else "none"
    else:
        raise Unmapped(f"parallelism {text!r} has no formula here")
    if found["parallel"] in {"ddp"} and gpus == 1:
        found["parallel"] = "none"
    if "offload" in low:
        found["offload"] = "params" if "zero-3" in low or "fsdp" in low else "optimizer"
    experts = re.search(r"-ep(\d+)", cells["framework"])
    if experts and gpus % int(experts.group(1)) == 0:
        found["ep"] = int(experts.group(1))
    return found


def _kernels(cells: dict[str, str], stack: str) -> dict[str, Any]:
    attention = cells["attention"].lower()
    kind = "flash" if "flash_att" in attention or attention == "te" else "eager" if "eager" in attention else "sdpa"
    if not attention and stack == "hf-2023":
        kind = "eager"
    loss = cells["loss_kernel"].lower()
    fused_norm = "fused rmsnorm" in loss or "liger" in loss
    chosen = "chunked" if "linear ce" in loss or "chunked" in loss else "fused" if "fused" in loss else "stock"
    if stack == "torchtune":
        chosen = "chunked"
    return {"attention": kind, "loss": chosen, "fused_norm": fused_norm, "compiled": cells["compile"] == "yes"}


def _optimizer(cells: dict[str, str]) -> str:
    text = cells["optimizer"].lower()
    if "galore" in cells["method"].lower():
        return "galore"
    if "offload" in text:
        return "adamw-fused"
    for needle, name in (
        ("paged_adamw_8bit", "paged-adamw-8bit"), ("paged", "paged-adamw"), ("ao adamw4", "adamw-ao-4bit"),
        ("ao 4-bit", "adamw-ao-4bit"), ("4-bit", "adamw-ao-4bit"), ("ao", "adamw-ao-8bit"),
        ("8bit", "adamw-8bit"), ("8-bit", "adamw-8bit"), ("adafactor", "adafactor"),
        ("fused", "adamw-fused"), ("adamw_hf", "adamw-fused"), ("galore", "galore"), ("lion", "lion"),
        ("sgd", "sgd"),
    ):  # fmt: skip
        if needle in text:
            return name
    return "adamw"


def _checkpointing(cells: dict[str, str], stack: str) -> str:
    text = cells["grad_ckpt"].lower()
    if cells["task"] == "inference":
        return "none"
    if text.startswith("no") and "multi" in text:
        return "layer" if int(re.sub(r"\D", "", cells["num_gpus"]) or 1) > 1 else "none"
    if text.startswith("no"):
        return "none"
    if "selective" in text or (text == "config default" and stack.startswith("torchtitan")):
        return "selective"
    if not text and stack in {"litgpt-2024", "timm", "hf-2023"}:
        return "none"
    return "layer"


def _adapters(cells: dict[str, str], stack: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rank = re.search(r"\d+", cells["lora_r"])
    found["lora_rank"] = int(rank.group()) if rank else 16 if stack != "hf-2023" else 8
    targets = cells["lora_targets"]
    if stack.startswith("litgpt"):  # finetune/lora.py's defaults where the row and its yaml say nothing
        found |= {"lora_rank": int(rank.group()) if rank else 8, "lora_dtype": "bf16", "lora_dropout": 0.05}
        found["lora_targets"] = targets or "q,v"
    elif "all" in targets.lower():
        found["lora_targets"] = "all-linear"
    else:
        found["lora_targets"] = targets or ("all-linear" if "Qwen" in cells["source"] else "attention")
    if "fms-hf-tuning" in cells["framework"]:
        found["lora_dropout"] = 0.1  # scenarios.yaml of the source
    if "fsdp_qlora" in cells["framework"]:  # train.py's defaults
        found |= {
            "lora_rank": 64,
            "lora_dropout": 0.1,
            "lora_dtype": "bf16",
            "lora_targets": "q,k,v,gate,up,down",
            "outputs_kept": True,
        }
    if "dora" in cells["notes"].lower() or "dora" in cells["method"].lower():
        found["lora_dora"] = "bdlora" not in cells["notes"].lower()
    if "trainable embedding" in cells["method"]:
        found["train_embeddings"] = True
    return found


def _card(text: str) -> Device | None:
    name = CARDS.get(text, text).replace("NVIDIA ", "")
    if not name or name in {"not stated"}:
        return None
    try:
        return device(name)
    except UsageError:
        return None
