"""`python -OO`: the same numbers, files and words with the probe as without, and a whole recording."""

import subprocess
import sys
from pathlib import Path

import pytest
from packages import need
from probed import PREFIX, TIMEOUT, environment, run_without

from gpudoctor.vitals.recording import read_recording

need("torch")

LIBRARIES = """
import os, sys
from importlib import _bootstrap_external as machinery

sys.dont_write_bytecode = True
original = machinery.cache_from_source
PYTHONS = os.path.dirname(os.__file__) + os.sep


def cache_from_source(path, debug_override=None, *, optimization=None):
    library = str(path).partition("site-packages")[2]
    if optimization is None and (library or str(path).startswith(PYTHONS)) and "gpudoctor" not in library:
        optimization = ""
    return original(path, debug_override, optimization=optimization)


machinery.cache_from_source = cache_from_source
"""
"""A sitecustomize: libraries, Python's own too, come from the files that an interpreter without -O has compiled, which saves the
minute that torch takes. What is the program's and what is ours is compiled as the flags say."""

DOCUMENT = '    """Words that -OO takes away."""\n'
ASSERTION = "    assert len(values) > 0 and random.random() >= 0\n"
"""Draws a number only where assertions are kept."""
TRAINING = f"""
import hashlib, random
random.seed(1)


def careful(values):
{DOCUMENT}{ASSERTION}    return values


model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(2):
    model.train()
    for x, y in DataLoader(data(64), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(careful(x)), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(loss.item().hex())
    model.eval()
    with torch.no_grad():
        print(sum(model(x).sum().item() for x, _ in DataLoader(data(32), batch_size=8)).hex())
    torch.save(model.state_dict(), "model-%d.pt" % epoch)
print(hashlib.sha256(repr([random.getstate(), torch.get_rng_state().tolist()]).encode()).hexdigest())
print(careful.__doc__, __debug__)
"""


def left(folder: Path) -> dict[str, bytes]:
    """What the training saved."""
    return {path.name: path.read_bytes() for path in folder.glob("*.pt")}


@pytest.mark.slow
def test_an_optimised_run_is_what_it_is_without_us(tmp_path, monkeypatch):
    """-OO takes away what -O does, and docstrings. Without us it is the program that has neither to begin with."""
    bare, probed, recording, site = (tmp_path / name for name in ("bare", "probed", "recording", "site"))
    for folder in (bare, probed, recording, site):
        folder.mkdir()
    (bare / "train.py").write_text(PREFIX + TRAINING.replace(DOCUMENT, "").replace(ASSERTION, ""))
    plain = run_without(bare / "train.py")
    assert (plain.returncode, plain.stderr) == (0, "")

    (site / "sitecustomize.py").write_text(LIBRARIES)
    monkeypatch.setenv("PYTHONPATH", str(site))
    (probed / "train.py").write_text(PREFIX + TRAINING)
    done = subprocess.run(
        [sys.executable, "-OO", "train.py"], cwd=probed, env=environment(recording), text=True,
        capture_output=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")

    *lines, last = done.stdout.splitlines()
    assert (lines, last) == (plain.stdout.splitlines()[:-1], "None False")
    assert left(probed) == left(bare) and len(left(bare)) == 2
    [rank] = read_recording(str(recording)).ranks
    assert not rank.of("lost")
    losses = [float.fromhex(line) for line in lines[:-1]]
    assert list(rank.steps.column("loss")) == pytest.approx([*losses[:8], *losses[9:17]], rel=1e-6)
    end = rank.first("end")
    assert end is not None and (end.get("clean"), end.get("steps")) == (True, 16)
