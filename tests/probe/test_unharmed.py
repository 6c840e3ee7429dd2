"""A training under the probe is what it is without: numbers, random state, files, words; whatever fails in us."""

import ast
import json
import os
import random
import signal
import sys
from pathlib import Path

import pytest
from packages import need
from probed import Run, run_script, run_without

import gpudoctor.probe
from gpudoctor.vitals.recording.reader import read_recording

need("torch")

TRAINING = """
import gc, hashlib, os, random, sys, warnings
import numpy
warnings.simplefilter("ignore")
random.seed(1); numpy.random.seed(2)

METHOD, ROWS, EPOCHS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

class Noisy(Dataset):
    def __len__(self):
        return ROWS
    def __getitem__(self, index):
        return torch.randn(8) + random.random() + float(numpy.random.rand()), index % 3

def main():
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 3))
    if EPOCHS > 1:
        torch.jit.trace(nn.Linear(8, 2), torch.zeros(1, 8))
        torch.jit.script(nn.Sequential(nn.Linear(8, 2), nn.ReLU()))(torch.zeros(1, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    method = None if METHOD == "none" else METHOD
    loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=1 if method else 0,
                        multiprocessing_context=method, persistent_workers=bool(method) and EPOCHS == 1)
    for epoch in range(EPOCHS):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=epoch == 1):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            print(loss.item().hex())
        schedule.step()
        model.eval()
        with torch.no_grad():
            print(sum(model(x).sum().item() for x, _ in loader).hex())
        gc.collect()
        torch.save(model.state_dict(), f"model-{epoch}.pt")
    states = [random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()]
    print(hashlib.sha256(repr(states).encode()).hexdigest())
    print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
    for finder in sys.meta_path:
        probe = getattr(finder, "probe", None)
        if probe is not None and os.environ.get("TELL_HOOKS"):
            print("hooks", *sorted(probe.guard.names), sep="|")

if __name__ == "__main__":
    main()
"""


SMALL = ("none", "32", "1")


def files(folder: Path) -> dict[str, bytes]:
    """What the program left beside itself."""
    ours = {"stdout", "stderr"}
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name not in ours}


def alone(tmp_path: Path, script: Path, *words: str, loaded: tuple[str, ...] = ()):
    """The script without us, and what it leaves, in a folder of its own."""
    folder = tmp_path / "alone"
    folder.mkdir()
    copy = folder / script.name
    copy.write_text(script.read_text())
    plain = run_without(copy, *words, loaded=loaded)
    return plain, files(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "options"),
    [(("none", "64", "2"), ()), (("fork", "64", "2"), ()), (("spawn", "64", "1"), ("-B",))],
    ids=["plain", "fork", "spawn"],
)
def test_numbers_random_state_files_and_words_are_as_without_us(tmp_path, words, options):
    run = run_script(tmp_path, TRAINING, *words, options=options)
    # Workers have the same random numbers however they were started.
    plain, left = alone(tmp_path, run.script, words[0].replace("spawn", "fork"), *words[1:])
    assert run.result.stdout == plain.stdout
    assert (run.result.returncode, run.result.stderr) == (plain.returncode, plain.stderr) == (0, "")
    assert files(tmp_path) == left
    assert run.rank.one("end")["steps"] == int(words[1]) // 8 * int(words[2])
    assert not run.rank.of("lost")


@pytest.mark.parametrize("option", ["-I", "-S", "-E"])
def test_flags_that_keep_us_out_change_nothing(tmp_path, option):
    text = "import sys\nprint([name for name in sys.modules if 'gpudoctor' in name])\n"
    run = run_script(tmp_path, text, prefix="", options=(option,))
    assert run.result.stdout == "[]\n" and not run.ranks


def names_of(run: Run) -> tuple[list[str], str]:
    """Names of the hooks that the probe knows, and what the program said."""
    lines = run.result.stdout.splitlines(keepends=True)
    (told,) = [line for line in lines if line.startswith("hooks|")]
    return told.strip().split("|")[1:], "".join(line for line in lines if line is not told)


@pytest.mark.slow
def test_every_hook_may_fail_and_the_training_goes_on(tmp_path):
    """Hooks are the guard's own list; each fails by itself, so all of a kind may fail in one run."""

    def run_with(name: str, *faults: str, **variables: str) -> Run:
        folder = tmp_path / name
        folder.mkdir()
        return run_script(folder, TRAINING, "fork", "32", "1", settings={"faults": list(faults)}, **variables)

    hooks, said = names_of(run_with("well", TELL_HOOKS="1"))
    assert len(hooks) > 40, hooks
    kinds = {
        "all": ["all"],
        "end": [name for name in hooks if name.endswith(" (end)")],
        "install": [name for name in hooks if name.endswith(" (install)")],
        "begin": [name for name in hooks if "(" not in name],
        "forward": ["forward"],
        "of steps": ["numerics", "memory", "facts"],
        "writer": ["writer"],
    }
    told: dict[str, set[str]] = {}
    for kind, faults in kinds.items():
        run = run_with(kind, *faults)
        assert run.result.stdout == said, faults
        assert run.result.stderr == "", faults
        told[kind] = {record["hook"] for process in (*run.ranks, *run.workers) for record in process.of("lost")}
    assert told["install"] == {*kinds["install"]} <= told["all"]
    assert {"loader", "forward", "backward", "optimizer"} <= told["begin"] <= {*kinds["begin"]}
    assert told["of steps"] == {*kinds["of steps"]}
    assert "loader" in told["end"]
    assert told["forward"] == {"forward"}
    # The report says so.
    problems = read_recording(str(tmp_path / "forward" / "recording")).problems
    assert any("`forward` hook failed" in problem for problem in problems)


KILLED = """
import os, subprocess, sys
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
subprocess.Popen(["sh", "-c", f"sleep {sys.argv[1]}; kill -9 {os.getpid()}"])
while True:
    for x, y in DataLoader(data(), batch_size=8):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_what_was_recorded_before_kill_9_is_read(tmp_path):
    """At any moment."""
    dice = random.Random(11)
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        moment = dice.uniform(0.0, 0.8)
        run = run_script(folder, KILLED, str(moment), code=-signal.SIGKILL)
        (rank,) = read_recording(str(run.folder)).ranks
        assert rank.first("start") is not None and not rank.clean
        counts = rank.steps.column("count")
        assert list(rank.steps.column("index")) == list(range(int(sum(counts))))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_a_disk_that_fills_up_costs_the_recording_and_nothing_else(tmp_path):
    """A limit on the size of files is met as a full disk is: by a write that does not fit."""
    limited = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))\n"
    )
    text = limited + "".join(line for line in TRAINING.splitlines(True) if "torch.save" not in line)
    run = run_script(tmp_path, text, *SMALL)
    plain, _ = alone(tmp_path, run.script, *SMALL)
    assert (run.result.stdout, run.result.stderr) == (plain.stdout, plain.stderr)
    (path,) = run.folder.glob("rank-*.gdr")
    assert path.stat().st_size <= 6000
    (run.folder / "end.json").write_text(json.dumps({"exit_code": 0, "signal": None, "seconds": 1.0}))
    recording = read_recording(str(run.folder))
    assert recording.ranks[0].lost_bytes == 0 and recording.ranks[0].first("start") is not None


QUIETLY = {
    "boot.py": "it begins before any handler of the program's",
    "guard.py": "hooks are put in while torch is imported",
    "sitecustomize.py": "it begins before any handler of the program's",
    "overrides": "an arm of a trial, no run of the user's",
}
"""Where an exception may be dropped without a question whose it is, and why."""


def test_an_exception_of_a_signal_handler_is_never_dropped_as_ours():
    """A program's handler may raise between any two of our instructions."""
    probe = Path(gpudoctor.probe.__file__).parent
    for file in sorted(probe.rglob("*.py")):
        if any(part in QUIETLY for part in file.relative_to(probe).parts):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and ast.unparse(node.type or ast.Name("")) in _ANY:
                raised = [part for part in ast.walk(node) if isinstance(part, ast.Raise)]
                assert raised, f"{file.name}:{node.lineno} drops what a signal handler of the program raises"


_ANY = ("", "Exception", "BaseException")
