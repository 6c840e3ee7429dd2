"""The program of a synthetic job: its text, what it refuses, DeepSpeed's config, and what fits."""

import ast
from dataclasses import replace

import pytest

from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.estimate import TrainingJob, estimate_job, lookup
from gpudoctor.estimate.synthetic import RunPlace
from gpudoctor.estimate.synthetic.deepspeed import made
from gpudoctor.estimate.synthetic.feasibility import NoRoomError, check_room, need_packages, refuse
from gpudoctor.estimate.synthetic.program_source import ProgramSpec, program

GIB = 1 << 30
CPU = RunPlace(kind="cpu", name="a CPU", bytes=24 * GIB, free=20 * GIB)
CARD = RunPlace(kind="cuda", name="NVIDIA H100 80GB HBM3", bytes=80 * GIB, free=79 * GIB, cards=1, capability=(9, 0))
LLAMA = lookup("llama-2-7b").preset.shape
FACTS = {
    "auto": "AutoModelForCausalLM", "config_class": "LlamaConfig",
    "config": {"vocab_size": 100, "hidden_size": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    "attention": "sdpa", "decoder_start": False, "image": None, "vocabulary": 100, "blocks": ["model.layers"],
    "block_class": "LlamaDecoderLayer", "checkpointing": "activation_checkpointing_enable", "reentrant": False,
    "targets": "all-linear", "whole": None, "transposed": False,
}  # fmt: skip


def text(job=None, kind="cpu", facts=None, **options):
    job = job or TrainingJob(**options.pop("job", {}))
    return program(ProgramSpec(title="t", origin="o", release="0", job=job, kind=kind, facts=facts or FACTS, **options))


def names(source):
    """Every name that a program reads without having one: a typo of ours, or a missing import."""
    import builtins
    import symtable

    table = symtable.symtable(source, "p", "exec")
    bound = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    bound |= {each.get_name() for each in table.get_symbols() if each.is_namespace()} | set(dir(builtins))
    used, stack = set(), [table]
    while stack:
        scope = stack.pop()
        stack += scope.get_children()
        used |= {each.get_name() for each in scope.get_symbols() if each.is_referenced() and each.is_global()}
    used |= {each.get_name() for each in table.get_symbols() if each.is_referenced()}
    return used - bound


@pytest.mark.parametrize(
    ("method", "kind", "types"),
    [
        ("full", "cpu", (("fp32", "bf16"), ("fp32", "no"))), ("full", "cuda", (("bf16", "no"), ("fp32", "fp16"))),
        ("lora", "cuda", (("bf16", "no"),)), ("qlora", "cuda", (("fp32", "bf16"),)), ("qlora", "cpu", (("bf16", "no"),)),
        ("int8-lora", "cuda", (("bf16", "no"),)), ("freeze", "cpu", (("fp32", "no"),)),
    ],
)  # fmt: skip
def test_every_program_is_python_that_has_all_its_names_and_none_of_ours(method, kind, types):
    changes = ({}, {"accumulate": 3}, {"checkpointing": "none"}, {"checkpoint_every": 2}, {"outputs_kept": True},
               {"optimizer": "adamw-8bit"}, {"compiled": True})  # fmt: skip
    for dtype, mixed in types:
        for more in changes if method in ("full", "qlora") and (dtype, mixed) == types[0] else changes[:2]:
            job = TrainingJob(method=method, dtype=dtype, mixed_precision=mixed, **more)
            source = text(job, kind)
            tree = ast.parse(source)
            assert not names(source), (names(source), source)
            assert "gpudoctor" not in {
                part
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom)
                for part in (node.module or "").split(".")
            }
            assert max(map(len, source.splitlines())) <= 120


@pytest.mark.parametrize(
    ("fields", "place", "said"),
    [
        ({"mode": "inference"}, CPU, "--mode inference"),
        ({"gpus": 2, "nodes": 2, "parallel": "ddp"}, CPU, "nodes 2"),
        ({"gpus": 2, "parallel": "ddp"}, CARD, "this machine has 1"),
        ({"method": "gptq-lora"}, CPU, "--method gptq-lora"),
        ({"loss": "chunked"}, CPU, "--loss chunked"),
        ({"stack": "litgpt"}, CPU, "stack litgpt"),
        ({"master_weights": True}, CPU, "--parallel zero2"),
        ({"attention": "flash"}, CPU, "use sdpa or eager"),
        ({"method": "qlora", "gpus": 2, "parallel": "fsdp2"}, CPU, "use ddp or zero2"),
        ({"method": "lora", "gpus": 2, "parallel": "fsdp"}, CPU, "--set lora_dtype=bf16"),
        ({"gpus": 2, "parallel": "fsdp2", "offload": "params"}, CPU, "--parallel zero2 or zero3"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(fields, place, said):
    with pytest.raises(UsageError, match=said):
        refuse(TrainingJob(**fields), place)


def test_a_missing_package_is_named_with_the_line_that_installs_it():
    job = TrainingJob(method="qlora")
    with pytest.raises(IncompleteError, match=r"--method qlora needs bitsandbytes.*pip install bitsandbytes$"):
        need_packages(job, lambda name: name != "bitsandbytes")
    with pytest.raises(IncompleteError, match="--parallel zero2 needs deepspeed"):
        need_packages(TrainingJob(parallel="zero2"), lambda name: name != "deepspeed")
    with pytest.raises(IncompleteError, match="pip install torchao"):
        need_packages(TrainingJob(optimizer="adamw-ao-8bit"), lambda name: name != "torchao")
    need_packages(job, lambda name: True)


def test_what_does_not_fit_is_refused_with_numbers():
    with pytest.raises(NoRoomError) as error:
        check_room(estimate_job(LLAMA, TrainingJob(batch=8)), CPU)
    said = str(error.value)
    assert error.value.exit_code == 1
    assert "20 GiB of this machine's 24 GiB are free" in said and "gpudoctor estimate --model llama-2-7b" in said
    assert said.endswith("--model llama-2-7b --gpu 24GiB --fit")
    with pytest.raises(NoRoomError, match=r"NVIDIA H100 80GB HBM3 has 80 GiB"):
        check_room(estimate_job(lookup("70b").preset.shape, TrainingJob(), CARD.device), CARD)
    qlora = estimate_job(LLAMA, TrainingJob(method="qlora"), CARD.device)
    check_room(qlora, CARD)
    with pytest.raises(NoRoomError, match=r"4 GiB of it free"):
        check_room(qlora, replace(CARD, free=4 * GIB))


def test_flags_alone_make_a_config():
    engine = made(TrainingJob(parallel="zero3", offload="params", batch=2), LLAMA)
    config = engine.config
    assert "16,777,216 x 2 B = 0.03 GiB" in engine.note
    assert config["zero_optimization"]["stage"] == 3 and config["bf16"] == {"enabled": True}
    assert (
        config["zero_optimization"]["offload_param"]["device"] == "cpu"
        and config["train_micro_batch_size_per_gpu"] == 2
    )
    assert "optimizer" not in made(TrainingJob(parallel="zero1", dtype="fp32"), LLAMA).config
