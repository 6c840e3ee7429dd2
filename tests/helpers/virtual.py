"""The virtual device for tests: built once where there is a compiler, and programs run on it under gpudoctor."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
from collections.abc import Callable
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest
from command import gpudoctor
from forks import Request, own_environment, zygote
from probed import environment, forked

from gpudoctor.analysis.run.line_costs import sites
from gpudoctor.vitals.recording.reader import read_recording

FOLDER = Path(__file__).parents[1] / "virtual_device"
TIMEOUT = 120
TIMES = 3
"""So often a scenario is played until its truth has the shape that it is about."""
Truth = TypeVar("Truth")


@cache
def extension() -> Path:
    """The built extension; skips the test, with a word, where it cannot be built."""
    if find_spec("torch") is None:  # it is not loaded here: that takes three seconds
        pytest.skip("torch is not installed")
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler: the virtual device cannot be built")
    source = FOLDER / "device.cpp"
    parts = b"".join(path.read_bytes() for path in (*sorted(FOLDER.glob("*.hpp")), source))
    key = hashlib.sha256(parts + f"{metadata.version('torch')} {sys.version}".encode()).hexdigest()[:16]
    built = Path(tempfile.gettempdir()) / f"gpudoctor-virtual-device-{os.getuid()}-{key}.so"
    with built.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker builds it for all: it takes 40 s of CPU time
        if not built.exists():
            _build(compiler, source, built)
    return built


def _build(compiler: str, source: Path, built: Path) -> None:
    import torch
    from torch.utils.cpp_extension import include_paths

    library = Path(torch.__file__).parent / "lib"
    made = built.with_suffix(f".{os.getpid()}")
    command = [
        compiler, "-std=c++20", "-O1", "-fPIC", "-shared", "-DTORCH_EXTENSION_NAME=virtual_device_c",
        *(f"-I{path}" for path in (*include_paths(), sysconfig.get_paths()["include"])), str(source), "-o",
        str(made), f"-L{library}", "-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10", f"-Wl,-rpath,{library}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the virtual device cannot be built: {done.stderr.strip()[-300:]}")
    made.replace(built)


def run_virtual(folder: Path, text: str, *, start: bool = False) -> tuple[dict, dict]:
    """A program on the device, watched: the report on it, and the truth that it wrote.

    `start` goes by `gpudoctor run`; else the program is forked with torch at hand, and `report` reads its recording.
    """
    report, [truth] = _started(folder, text, 1) if start else _forked(folder, text, 1)
    return report, truth


def _started(folder: Path, text: str, ranks: int) -> tuple[dict, list[dict]]:
    """By `gpudoctor run`, and several ranks by torchrun; nothing is at hand, as for a user."""
    script, place = _written(folder, text), Path(tempfile.mkdtemp(dir=folder))
    report, truth = place / "report.json", place / "truth{rank}.json"
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    done = gpudoctor(
        "run", "--format", "json", "--output", str(report), "--", sys.executable, *launcher, str(script),
        timeout=TIMEOUT, **_device(truth),
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    truths = [Path(str(truth).format(rank=rank)) for rank in range(ranks)]
    assert all(path.exists() for path in truths), done.stderr
    return json.loads(report.read_text()), [json.loads(path.read_text()) for path in truths]


def run_unwatched(folder: Path) -> dict:
    """The truth of the program that was run in this folder last, without us."""
    truth = folder / "alone.json"
    variables = {**own_environment(), **_device(truth)}
    done = zygote("zygote.py").run(forked(folder / "main.py", (), variables, limit=TIMEOUT))
    assert done.returncode == 0, done.stderr
    return json.loads(truth.read_text())


def _written(folder: Path, text: str) -> Path:
    script = folder / "main.py"
    script.write_text(textwrap.dedent(text))
    shutil.copy(FOLDER / "vgpu.py", folder)
    return script


def _device(truth: Path) -> dict[str, str]:
    return {"GPUDOCTOR_VIRTUAL_DEVICE": str(extension()), "GPUDOCTOR_TRUTH": str(truth)}


def _forked(folder: Path, text: str, ranks: int) -> tuple[dict, list[dict]]:
    """Every rank in a process of its own, forked from one that has torch; the report on their recording."""
    script, place = _written(folder, text), Path(tempfile.mkdtemp(dir=folder))

    def request(rank: int) -> Request:
        said = place / f"rank{rank}"
        said.mkdir()
        among = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)} if ranks > 1 else {}
        variables = environment(place, **_device(place / f"truth{rank}.json"), **among)
        return forked(script, (), variables, said=said, limit=TIMEOUT)

    done = zygote("zygote.py").run_together([request(rank) for rank in range(ranks)])
    assert not any(one.returncode for one in done), "".join(one.stderr for one in done)
    told = gpudoctor("report", "--format", "json", "--output", str(place / "report.json"), str(place), timeout=TIMEOUT)
    assert told.returncode in (0, 1), told.stderr
    truths = [json.loads((place / f"truth{rank}.json").read_text()) for rank in range(ranks)]
    return json.loads((place / "report.json").read_text()), truths


def waits(report: dict, text: str) -> dict[str, float]:
    """Seconds that the host waited in hooks, by the text of the line."""
    lines = textwrap.dedent(text).splitlines()
    found: dict[str, float] = {}
    for rank in read_recording(Path(report["run"]["recording"])).ranks:
        for site in sites(rank):
            if site.phase == "sync" and site.place.path.endswith("main.py"):
                line = lines[site.place.line - 1].strip()
                found[line] = found.get(line, 0.0) + site.seconds
    return found


def run_until(
    folder: Path, text: str, shape: Callable[[dict], bool], agree: Callable[[dict, dict], bool] | None = None
) -> tuple[dict, dict]:
    """The same, again until the truth has a shape: how busy a device is depends on the machine that plays it.

    The truth is of all steps, a claim of those that were watched. On a busy machine they differ: with `agree`,
    a play in which report and truth do not is made again. What is wrong in every play is given back.
    """
    return _until(lambda: run_virtual(folder, text), shape, agree)


def run_ranks(
    folder: Path,
    text: str,
    shape: Callable[[list[dict]], bool],
    agree: Callable[[dict, list[dict]], bool] | None = None,
    *,
    start: bool = False,
) -> tuple[dict, list[dict]]:
    """The same with two ranks: the report, and what each rank's device knows."""
    return _until(lambda: (_started if start else _forked)(folder, text, 2), shape, agree)


def _until(
    play: Callable[[], tuple[dict, Truth]], shape: Callable[[Truth], bool], agree: Callable[[dict, Truth], bool] | None
) -> tuple[dict, Truth]:
    seen, played = [], None
    for _ in range(TIMES):
        report, truth = play()
        if shape(truth):
            played = report, truth
            if agree is None or agree(report, truth):
                break
        seen.append(truth)
    if played is not None:
        return played
    pytest.skip(f"this machine is too busy to play the scenario: {seen}")


HEAD = """
import sys
import torch, vgpu
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to("vgpu")
opt = torch.optim.SGD(net.parameters(), 0.01)
truth = vgpu.Truth()
"""
LOOP = """
for step in range(STEPS):
    if step == BEGIN:
        truth.begin()
    x, y = batch()
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    if WORK:
        vgpu.device.work(WORK, 0)
    loss.backward()
    opt.step()
    AFTER
vgpu.tell(truth.end(STEPS - BEGIN))
"""
READY = """
rows, labels = torch.randn(16, 32).to("vgpu"), torch.randint(0, 8, (16,)).to("vgpu")
def batch():
    return rows, labels
"""


def program(
    *,
    kernel: float = 2e-6,
    work: float = 0.0,
    steps: int = 160,
    begin: int = 10,
    batch: str = READY,
    after: str = "pass",
) -> str:
    """A loop on a device with kernels of so many seconds, and in each step one of `work`: the model's own, while
    what gpudoctor asks for is short, as on a GPU. Its truth is of the steps from `begin` on.
    """
    loop = LOOP
    for name, value in (("STEPS", steps), ("BEGIN", begin), ("WORK", work), ("AFTER", after)):
        loop = loop.replace(name, str(value))
    return f"{HEAD}\nvgpu.device.set_kernel({kernel})\n{batch}\n{loop}"
