"""The text of a synthetic job: a plain training program that needs nothing of ours.

It has only the lines that its job needs, so that what a remedy changes is a line that can be read, and so that
it can be taken along and run by hand.
"""

import inspect
import textwrap
from collections.abc import Callable
from pprint import pformat
from typing import Any

from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.synthetic import program_parts
from gpudoctor.estimate.synthetic.program_lines import ProgramSpec, loop_lines, model_lines, needs_of, optimizer_lines

_WIDTH = 110
_KEYWORDS_WIDTH = 84


def program(script: ProgramSpec) -> str:
    """The program's text."""
    body = (
        _arguments(script), _place(script), _config(script), model_lines(script), _wrapped(script),
        _optimizer(script), loop_lines(script),
    )  # fmt: skip
    blocks = [
        "\n".join([*_heading(script), "", *_imports(script)]),
        *("\n".join(_source(piece)) for piece in _needed(script)),
        "\n\n".join("\n".join(lines) for lines in body if lines),
    ]
    return "\n\n\n".join(blocks) + "\n"


def _heading(script: ProgramSpec) -> list[str]:
    by_hand = "python THIS --steps 20"
    if script.several:
        by_hand = f"torchrun --nproc_per_node={script.job.gpus} THIS --steps 20"
    said = (
        f"Written by gpudoctor {script.release} for `{script.origin}`. Weights and data are random: time and "
        f"memory are those of the real job, losses mean nothing. It needs nothing of gpudoctor; by hand: "
        f"{by_hand}"
    )
    return [
        f'"""{textwrap.fill(script.title, _WIDTH - 3)}',
        "",
        *textwrap.wrap(said, _WIDTH, break_on_hyphens=False),
        '"""',
    ]


def _needed(script: ProgramSpec) -> list[Callable[..., Any]]:
    """The longer pieces that this job has."""
    found: list[Callable[..., Any]] = [
        program_parts.RandomImages if script.facts["image"] else program_parts.RandomTokens
    ]
    if script.job.quantized:
        found += [
            program_parts.linears,
            program_parts.four_bits if script.job.method == "qlora" else program_parts.eight_bits,
            program_parts.fill,
        ]
    return found


def _source(piece: Callable[..., Any]) -> list[str]:
    """Its source, without quotes around types: there the names are known."""
    text = inspect.getsource(piece)
    for quoted in {
        part for line in text.splitlines() if "->" in line or "def " in line for part in line.split('"')[1::2]
    }:
        text = text.replace(f'"{quoted}"', quoted)
    return text.rstrip("\n").split("\n")


def _imports(script: ProgramSpec) -> list[str]:
    job, facts = script.job, script.facts
    standard = ["import argparse"]
    standard += ["import os"] if script.several or script.deepspeed else []
    standard += ["import socket"] if script.deepspeed and not script.several else []
    standard += ["from contextlib import nullcontext"] if _skips_exchange(script) else []
    standard += ["from typing import Any"] if job.quantized else []
    plain = ["import deepspeed"] if script.deepspeed else []
    plain += ["import bitsandbytes as bnb"] if job.quantized or needs_of(job.optimizer) == "bitsandbytes" else []
    plain += ["import torch"]
    plain += ["import torch.distributed as dist"] if script.several and not script.deepspeed else []
    named = ["from accelerate import init_empty_weights"] if job.quantized else []
    if job.adapted:
        names = ["LoraConfig", "get_peft_model", *(["prepare_model_for_kbit_training"] if _prepared(job) else [])]
        named.append(f"from peft import {', '.join(names)}")
    named += _parallel_imports(job) if script.several else []
    named.append("from torch.utils.data import DataLoader")
    named.append(f"from transformers import {', '.join(sorted((facts['auto'], facts['config_class'])))}")
    if needs_of(job.optimizer) == "torchao":
        named.append(f"from torchao.optim import AdamW{job.optimizer[-4]}bit")
    if job.optimizer == "adafactor":
        named.append("from transformers.optimization import Adafactor")
    return [*sorted(standard, key=lambda line: (line.startswith("from"), line)), "", *sorted(plain), *sorted(named)]


def _parallel_imports(job: TrainingJob) -> list[str]:
    return {
        "ddp": ["from torch.nn.parallel import DistributedDataParallel"],
        "fsdp": [
            "from torch.distributed.fsdp import FullyShardedDataParallel",
            "from torch.distributed.fsdp.wrap import ModuleWrapPolicy",
        ],
        "fsdp2": [
            "from torch.distributed.device_mesh import init_device_mesh",
            "from torch.distributed.fsdp import fully_shard",
        ],
    }.get(job.parallel, [])


def _prepared(job: TrainingJob) -> bool:
    return job.quantized and job.kbit_prepare


def _skips_exchange(script: ProgramSpec) -> bool:
    """Whether gradients of all but the last micro batch stay on their rank."""
    return script.job.parallel == "ddp" and script.job.accumulate > 1


def _arguments(script: ProgramSpec) -> list[str]:
    job = script.job
    lines = [
        "parser = argparse.ArgumentParser()",
        f'parser.add_argument("--batch", type=int, default={job.batch}, help="rows in a micro batch")',
        f'parser.add_argument("--seq", type=int, default={job.seq}, help="tokens in a row")',
        'parser.add_argument("--steps", type=int, default=1_000_000, help="optimizer steps")',
    ]
    if script.facts["image"]:
        del lines[2]
    if script.deepspeed:
        lines.append('parser.add_argument("--deepspeed", required=True, metavar="FILE", help="its config")')
    lines.append("options = parser.parse_args()")
    if job.accumulate > 1:
        lines.append(f"ACCUMULATE = {job.accumulate}  # micro batches in a step")
    return lines


def _place(script: ProgramSpec) -> list[str]:
    """Ranks, device and seed."""
    cuda = script.kind == "cuda"
    backend = "nccl" if cuda else "gloo"
    lines = []
    if script.deepspeed:
        if not script.several:
            lines += [
                'alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}',
                "with socket.socket() as probe:",
                '    probe.bind(("127.0.0.1", 0))',
                '    alone["MASTER_PORT"] = str(probe.getsockname()[1])',
                "os.environ.update({**alone, **os.environ})  # or DeepSpeed looks for MPI",
            ]
        if not cuda:
            lines.append('deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo will do: no compiler')
        lines.append(f'deepspeed.init_distributed("{backend}")')
    elif script.several:
        lines.append(f'dist.init_process_group("{backend}")')
    if script.several or script.deepspeed:
        lines.append('rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])')
        lines.append('device = torch.device("cuda", local)' if cuda else 'device = torch.device("cpu")')
        lines += ["torch.cuda.set_device(device)"] if cuda else []
    else:
        lines.append(f'device = torch.device("{script.kind}")')
    return [*lines, "torch.manual_seed(0)"]


def _config(script: ProgramSpec) -> list[str]:
    """The configuration as keyword arguments."""
    lines = []
    for key, value in script.facts["config"].items():
        first, *more = pformat(value, width=_KEYWORDS_WIDTH, compact=True, sort_dicts=False).split("\n")
        indent = " " * (len(key) + 5)
        lines += [f"    {key}={first}", *(indent + line for line in more)]
        lines[-1] += ","
    made = [f"config = {script.facts['config_class']}(", *lines, ")"]
    if script.facts["decoder_start"]:
        made.append("config.decoder_start_token_id = 0")
    return made


def _wrapped(script: ProgramSpec) -> list[str]:
    """The model spread over the ranks."""
    if not script.several or script.deepspeed:
        return []
    cuda = script.kind == "cuda"
    if script.job.parallel == "ddp":
        return [f"model = DistributedDataParallel(model{', device_ids=[local]' if cuda else ''})"]
    if script.job.parallel == "fsdp":
        lists = [f"type({_blocks(script, name)}[0])" for name in script.facts["blocks"]]
        return [
            f"policy = ModuleWrapPolicy({{{', '.join(lists)}}})",
            "model = FullyShardedDataParallel(",
            "    model, auto_wrap_policy=policy, device_id=device, use_orig_params=True",
            ")",
        ]
    spread = " + ".join(f"[*{_blocks(script, name)}]" for name in script.facts["blocks"])
    return [
        f'mesh = init_device_mesh("{script.kind}", (dist.get_world_size(),))',
        f"for block in {spread}:", "    fully_shard(block, mesh=mesh)", "fully_shard(model, mesh=mesh)",
    ]  # fmt: skip


def _blocks(script: ProgramSpec, name: str) -> str:
    """A list of blocks by its name in the bare model."""
    return f"model{'.get_base_model()' if script.job.adapted else ''}.{name}"


def _optimizer(script: ProgramSpec) -> list[str]:
    lines = ["trained = [parameter for parameter in model.parameters() if parameter.requires_grad]"]
    if script.own_optimizer:
        lines += optimizer_lines(script.job.optimizer)
    if script.deepspeed:
        given = "optimizer=optimizer, " if script.own_optimizer else ""
        lines.append(
            f"model, optimizer, _, _ = deepspeed.initialize(\n"
            f"    model=model, model_parameters=trained, {given}config=options.deepspeed\n)"
        )
    return lines
