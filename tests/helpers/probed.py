"""Runs a script as `gpudoctor run` would start it: with the probe, in a folder of its own."""

import json
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import frames
from forks import Finished, Request, own_environment, zygote

import gpudoctor

PROBE = Path(gpudoctor.__file__).parent / "probe"
TIMEOUT = 60

PREFIX = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)


def data(rows=64):
    return TensorDataset(torch.randn(rows, 8), torch.randint(0, 3, (rows,)))


def net():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

"""
"""What most scripts begin with."""

COMPILING = ("torch._dynamo.testing", "torch._inductor.compile_fx", "torch._dynamo.backends.cudagraphs")
"""What torch loads when something is compiled for the first time: one to three seconds."""


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """The environment that the parent makes."""
    kept = own_environment()
    path = os.pathsep.join(part for part in (str(PROBE / "site"), kept.get("PYTHONPATH", "")) if part)
    return {**kept, "PYTHONPATH": path, "GPUDOCTOR_PROBE": str(PROBE), "GPUDOCTOR_RECORDING": str(folder), **variables}


@dataclass
class Run:
    """A script that has run."""

    folder: Path
    script: Path
    result: Finished

    @property
    def ranks(self) -> list[frames.Told]:
        return frames.told(self.folder)

    @property
    def rank(self) -> frames.Told:
        (told,) = self.ranks
        return told

    @property
    def workers(self) -> list[frames.Told]:
        return frames.told(self.folder, "worker")

    def line(self, mark: str) -> int:
        """Number of the script's line that ends in `# mark`."""
        lines = self.script.read_text(encoding="utf-8").splitlines()
        (number,) = [at for at, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
        return number


def run_script(
    tmp_path: Path,
    text: str,
    *words: str,
    prefix: str = PREFIX,
    options: tuple[str, ...] = (),
    settings: dict | None = None,
    code: int | None = 0,
    launch: tuple[str, ...] = (),
    start: bool = False,
    ranks: int = 1,
    loaded: tuple[str, ...] = (),
    **variables: str,
) -> Run:
    """Write the script, run it under the probe, expect an exit code (None: any).

    `start` starts an interpreter for it (so do options and launchers); else a process that has torch is forked: one
    for each of several ranks, with the variables that a launcher gives them; one alone finds modules `loaded`.
    """
    folder = tmp_path / "recording"
    folder.mkdir(exist_ok=True)
    script = tmp_path / "train.py"
    script.write_text(prefix + textwrap.dedent(text), encoding="utf-8")
    if settings:
        variables["GPUDOCTOR_SETTINGS"] = json.dumps(settings)
    if start or options or launch or not hasattr(os, "fork"):
        result = subprocess.run(
            [sys.executable, *options, *launch, str(script), *words],
            env=environment(folder, **variables), cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT,
            check=False,
        )  # fmt: skip
    elif ranks > 1:
        result = _worst(run_ranks(script, words, environment(folder, **variables), ranks))
    else:
        result = zygote("zygote.py").run(forked(script, words, environment(folder, **variables), loaded=loaded))
    if code is not None:
        assert result.returncode == code, result.stdout[-2000:] + result.stderr[-4000:]
    return Run(folder, script, result)


def run_ranks(script: Path, words: Sequence[str], variables: Mapping[str, str], count: int) -> list[Finished]:
    """So many ranks of a script, each in a forked process that has torch."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    requests = []
    for rank in range(count):
        said = script.parent / f"said-{rank}"
        said.mkdir()
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count,
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}  # fmt: skip
        among = {**variables, **{name: str(value) for name, value in place.items()}}
        requests.append(forked(script, words, among, said=said))
    return zygote("zygote.py").run_together(requests)


def _worst(ended: Sequence[Finished]) -> Finished:
    """The first that failed, or the first."""
    return next((one for one in ended if one.returncode), ended[0])


def run_without(script: Path, *words: str, loaded: tuple[str, ...] = ()) -> Finished:
    """A script in a forked process that has torch and no probe."""
    return zygote("zygote.py").run(forked(script, words, own_environment(), loaded=loaded))


def forked(
    script: Path,
    words: Sequence[str],
    variables: Mapping[str, str],
    *,
    said: Path | None = None,
    limit: float | None = None,
    loaded: Sequence[str] = (),
) -> Request:
    """A child for a script, in the script's folder; what it says is kept there, or in the folder `said`."""
    folder = script.parent
    return Request(
        words=[str(script), *words], folder=folder, environment=variables, said=said or folder,
        limit=limit or TIMEOUT, loaded=loaded,
    )  # fmt: skip


def run_plain(tmp_path: Path, script: Path, *words: str) -> Finished:
    """The same script without the probe."""
    return subprocess.run(
        [sys.executable, str(script), *words], env=own_environment(), cwd=tmp_path, text=True,
        capture_output=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
