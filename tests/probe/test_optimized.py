"""`python -O` and `-OO`: the same numbers, files and words with the probe as without, and a whole recording."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packages import need
from probed import PREFIX, PROBE, TIMEOUT, environment
from some import some

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

TRAINING = '''
import hashlib, random
random.seed(1)


def careful(values):
    """Words that -OO takes away."""
    assert len(values) > 0 and random.random() >= 0  # draws a number only where assertions are kept
    return values


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
    torch.save(model.state_dict(), f"model-{epoch}.pt")
print(hashlib.sha256(repr([random.getstate(), torch.get_rng_state().tolist()]).encode()).hexdigest())
print(careful.__doc__, __debug__)
'''


def train(folder: Path, option: str, variables: dict[str, str]) -> tuple[str, dict[str, bytes]]:
    """Standard output and files of the training in a folder of its own."""
    folder.mkdir()
    (folder / "train.py").write_text(PREFIX + TRAINING)
    done = subprocess.run(
        [sys.executable, *([option] if option else []), "train.py"], cwd=folder, env=variables, text=True,
        capture_output=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_optimised_runs_are_what_they_are_without_us(tmp_path, monkeypatch):
    """One run without us is enough: what -OO takes away beside -O are docstrings."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(LIBRARIES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    plain, left = train(tmp_path / "plain", "-OO", dict(os.environ))
    *plain_lines, last = plain.splitlines()
    assert last == "None False"
    for option, kept in (("-O", "Words that -OO takes away. False"), ("-OO", last)):
        recording = tmp_path / f"recording{option}"
        recording.mkdir()
        said, made = train(tmp_path / f"probed{option}", option, environment(recording))
        *lines, heard = said.splitlines()
        assert (lines, heard, made) == (plain_lines, kept, left)
        [rank] = read_recording(str(recording)).ranks
        assert not rank.of("lost")
        losses = [float.fromhex(line) for line in lines[:-1]]
        assert list(rank.steps.column("loss")) == pytest.approx([*losses[:8], *losses[9:17]], rel=1e-6)
        end = rank.first("end")
        assert end is not None and (end.get("clean"), end.get("steps")) == (True, 16)


def test_the_probe_hangs_on_no_assertion_and_no_docstring():
    """What an `assert` of ours does, a type checker alone may need; and nothing of ours is read from a docstring."""
    for path in some(sorted(PROBE.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assert):
                names = {type(part) for part in ast.walk(node.test)}
                assert not names & {ast.Call, ast.NamedExpr, ast.Await, ast.Yield}, f"{path.name}:{node.lineno}"
            assert not (isinstance(node, ast.Attribute) and node.attr == "__doc__"), (
                f"{path.name}:{node.lineno}"
            )
