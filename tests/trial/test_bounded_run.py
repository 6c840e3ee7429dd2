"""Bounded runs: where they end, and that nothing of them is left."""

import os
import shlex
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpudoctor.recorder.start_command import CommandError
from gpudoctor.trial.bounded_run import RunSpec, run_bounded
from gpudoctor.trial.processes import adopt_orphans
from gpudoctor.trial.window import steps_made, warm_up, window
from gpudoctor.vitals.recording.reader import read_recording

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
CHILDREN = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
bare = subprocess.Popen(["sleep", "1000"], start_new_session=True, env={"PATH": os.environ["PATH"]})
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("daemon.tmp", "w") as stream:
            stream.write(str(os.getpid()))
        os.rename("daemon.tmp", "daemon")
        time.sleep(1000)
    os._exit(0)
os.wait()
while not os.path.exists("daemon"):
    time.sleep(0.01)
with open("pids.tmp", "w") as stream:
    stream.write(f"{child.pid} {bare.pid} {open('daemon').read()}")
os.rename("pids.tmp", "pids")
print("started", flush=True)
time.sleep(1000)
"""
TRAIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,))), batch_size=8, num_workers=1)
while True:
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "recording"
    made.mkdir()
    return made


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_at_the_end_of_the_time_the_whole_tree_is_gone(folder):
    adopt_orphans()
    Path("run.py").write_text(CHILDREN)

    def started(_seconds: float) -> None:
        while not Path("pids").exists():
            time.sleep(0.01)

    plan = RunSpec(command=(sys.executable, "run.py"), folder=folder, seconds=0.5)
    done = run_bounded(plan, watch=started)
    assert (done.stopped_by, done.exit_code, done.failed, done.left) == ("seconds", None, False, ())
    pids = [int(word) for word in Path("pids").read_text().split()]
    assert len(pids) == 3 and all(gone(pid) for pid in pids)
    assert done.last_words() == "started"


def test_a_command_that_ends_by_itself_dies_or_does_not_exist(folder):
    plan = RunSpec(command=(sys.executable, "-c", "import sys; print('a'); sys.exit('boom')"), folder=folder)
    done = run_bounded(plan)
    assert (done.stopped_by, done.exit_code, done.failed, done.last_words()) == (None, 1, True, "boom")
    killed = run_bounded(RunSpec(command=(sys.executable, "-c", "import os; os.abort()"), folder=folder))
    assert (killed.exit_code, killed.failed) == (134, True)
    with pytest.raises(CommandError, match="command not found"):
        run_bounded(RunSpec(command=("no-such-command",), folder=folder))


@needs_torch
@pytest.mark.slow
def test_the_window_ends_after_its_steps_and_what_started_it_does_not_go_on(folder):
    Path("train.py").write_text(TRAIN)
    command = ("bash", "-c", f"{shlex.quote(sys.executable)} train.py; touch after")
    done = run_bounded(RunSpec(command=command, folder=folder, steps=40, overrides={"trial.seed": 3}))
    assert (done.stopped_by, done.left) == ("steps", ())
    assert not Path("after").exists()
    recording = read_recording(str(folder))
    assert steps_made(recording) == 40
    assert recording.ranks[0].clean
    assert 1 <= warm_up(recording) <= 20
    found = window(recording, 10, 30)
    assert (found.steps, found.samples, sorted(found.losses)) == (20, 8.0, list(range(40)))
    assert 0 < found.seconds < 10
    assert window(recording, 38) is None
    assert os.getcwd() == str(folder.parent)


KILLED = """
import os, signal, sys, time
from pathlib import Path
from gpudoctor.trial.bounded_run import RunSpec, run_bounded
from gpudoctor.trial.processes import CleanupWatchdog
scratch, folder = Path(sys.argv[1]), Path(sys.argv[2])

def die(_seconds):
    while not os.path.exists("pids"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

run_bounded(RunSpec(command=(sys.executable, "run.py"), folder=folder), watch=die, watching=CleanupWatchdog(scratch).watching)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_when_we_are_killed_the_watchdog_ends_the_run_and_deletes_the_scratch_place(folder):
    Path("run.py").write_text(CHILDREN.replace('env={"PATH": os.environ["PATH"]}', "env=os.environ"))
    scratch = folder.parent / "scratch"
    (scratch / "closed").mkdir(parents=True)
    (scratch / "closed").chmod(0)
    done = subprocess.run([sys.executable, "-c", KILLED, str(scratch), str(folder)], timeout=60, check=False)
    assert done.returncode == -9
    pids = [int(word) for word in Path("pids").read_text().split()]
    deadline = time.monotonic() + 30
    while (scratch.exists() or not all(map(gone, pids))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not scratch.exists() and len(pids) == 3 and all(map(gone, pids))


FORKS = """
import os, signal, sys
from pathlib import Path
from gpudoctor.trial.bounded_run import RunSpec, run_bounded
once = [True]
os.register_at_fork(before=lambda: once and once.pop() and os.kill(os.getpid(), signal.SIGINT))
try:
    run_bounded(RunSpec(command=(sys.executable, "-c", "import time; time.sleep(60)"), folder=Path(sys.argv[1]), seconds=30))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_in_the_middle_of_a_fork_is_not_lost(tmp_path):
    done = subprocess.run([sys.executable, "-c", FORKS, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr
