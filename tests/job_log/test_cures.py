"""What a log is answered with fits who raised the error, and where: the framework, the phase, the library."""

import pytest
from log_cases import found_in_log

from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Finding
from gpudoctor.testing import make_patient

RULES = load_registry().rules
PACKAGES = "/opt/conda/envs/x/lib/python3.12/site-packages"
ASKED = "CUDA out of memory. Tried to allocate 96.00 MiB. GPU 1 has a total capacity of 47.54 GiB of which 5.00 MiB is free."


def raised(said: str, *libraries: str, line: str = "fit(args)") -> str:
    """A traceback from a line of the program's own through files of libraries."""
    frames = "".join(f'  File "{PACKAGES}/{name}", line 7, in step\n    go()\n' for name in libraries)
    return f'Traceback (most recent call last):\n  File "/w/fit.py", line 9, in <module>\n    {line}\n{frames}{said}\n'


def cures(finding: Finding) -> list[str]:
    rows = [
        item for rule in RULES[finding.code] if rule.reads_logs for item in rule().prescribe(finding, make_patient())
    ]
    return [item.id.partition("-")[2] for item in rows]


@pytest.mark.parametrize(
    ("code", "text", "found"),
    [
        (
            "MEM009",
            "2026-02-01 10:00:00.1: W external/xla/xla/tsl/framework/bfc_allocator.cc:482] Allocator (GPU_0_bfc) ran out\n"
            + raised("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 17 bytes.", "jax/_src/pjit.py"),
            ["xla"],
        ),
        (
            "MEM009",
            raised(f"torch.OutOfMemoryError: {ASKED}", "torch/nn/modules/module.py", line="unet.to('cuda')"),
            ["loading"],
        ),
        ("MEM009", raised(f"torch.OutOfMemoryError: {ASKED}", "torch/optim/adam.py"), ["optimizer"]),
        (
            "MEM009",
            raised(f"torch.OutOfMemoryError: {ASKED}", "diffusers/pipelines/flux/pipeline_flux.py", "torch/nn/functional.py"),
            ["generation"],
        ),
        ("MEM009", "terminate: CUDA Error: out of memory at ../csrc/cumem_allocator.cpp:62", ["wake"]),
        (
            "MEM009",
            raised("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.", "vllm/worker.py"),
            ["cache"],
        ),
        (
            "MEM009",
            raised(f"torch.OutOfMemoryError: {ASKED} Process 7 has 30.00 GiB memory in use. "
                   "Including non-PyTorch memory, this process has 16.00 GiB memory in use."),
            ["others"],
        ),
        ("MEM009", raised(f"torch.OutOfMemoryError: {ASKED}", "torch/nn/functional.py"), ["batch", "checkpointing", "smaller"]),
        ("FAIL020", "srun: error: Unable to create step for job 8: Requested node configuration is not available", ["step"]),
        ("FAIL020", "srun: error: Unable to allocate resources: Requested node configuration is not available", ["slurm"]),
        (
            "FAIL001",
            raised("ValueError: The loader was closed. Please call `reset()` before the next epoch.", "ffdl/loader.py"),
            ["asks", "line"],
        ),
        ("ENV005", raised("KeyError: 'glm5'", "transformers/models/auto/configuration_auto.py"), ["newer"]),
        ("FAIL001", raised("KeyError: 'glm5'", "transformers/trainer.py"), ["line"]),
        ("ENV008", raised("RuntimeError: Resource temporarily unavailable", "torch/autograd/graph.py"), ["threads"]),
    ],
)  # fmt: skip
def test_the_cure_is_that_of_the_place_and_the_framework(tmp_path, code, text, found):
    [finding] = found_in_log(code, tmp_path, text)
    assert sorted(cures(finding)) == sorted(found)


def test_a_refused_step_is_no_job_that_did_not_start(tmp_path):
    [finding] = found_in_log("FAIL020", tmp_path, "srun: error: Unable to create step for job 8: Invalid account\n")
    assert finding.message == "The job runs, and Slurm refused a step of it: Invalid account."
    assert finding.cost.breaks == "the run died"
