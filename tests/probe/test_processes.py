"""Deaths, and the processes that a training starts: loader workers, spawned and forked ranks."""

import os
import signal
from pathlib import Path

import pytest
from packages import need
from probed import run_script

from gpudoctor import probe

need("torch")

DIES = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def forward(x, step):
    if step == 5:
        x = x[:, :4]
    return model(x)  # dies
for step, (x, y) in enumerate(DataLoader(data(80), batch_size=8)):
    optimizer.zero_grad()
    F.cross_entropy(forward(x, step), y).backward()
    optimizer.step()
"""


def test_an_exception_is_told_with_its_place(tmp_path):
    run = run_script(tmp_path, DIES, code=1)
    died = run.rank.one("exception")
    assert died["exception"] == "RuntimeError"
    assert "mat1 and mat2" in died["message"]
    assert (died["step"], died["phase"], died["oom"]) == (5, "forward", None)
    path, line, function, text = died["frames"][died["user"]]
    assert (path, line, function) == (str(run.script), run.line("dies"), "forward")
    assert text == "return model(x)  # dies"
    ours = str(Path(probe.__file__).parent)
    assert died["frames"] and not [frame for frame in died["frames"] if frame[0].startswith(ours)]
    assert run.rank.one("end")["clean"]
    assert run.result.stderr.splitlines()[-1].startswith("RuntimeError: mat1 and mat2")
    assert ours not in run.result.stderr  # the traceback is as without us here


def test_an_interrupt_is_told(tmp_path):
    run = run_script(
        tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(5)", code=None
    )
    assert run.result.returncode in (1, -signal.SIGINT, 130)
    assert run.rank.one("exception")["exception"] == "KeyboardInterrupt"


def test_an_exit_that_the_program_asks_for_is_told_with_its_line(tmp_path):
    run = run_script(tmp_path, "import sys\ndef leave():\n    sys.exit('no data in /x')  # here\nleave()", code=1)
    told = run.rank.one("exception")
    assert (told["exception"], told["message"]) == ("SystemExit", "no data in /x")
    assert told["frames"][told["user"]][:3] == [str(run.script), run.line("here"), "leave"]
    assert run.result.stderr == "no data in /x\n"


def test_out_of_host_memory_is_told_as_such(tmp_path):
    run = run_script(tmp_path, "torch.empty(1 << 60)", code=1)
    assert run.rank.one("exception")["oom"]["device"] == "cpu"


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGSEGV"])
def test_a_signal_kills_as_without_us_and_leaves_its_stack(tmp_path, name):
    run = run_script(
        tmp_path, f"import os, signal\nos.kill(os.getpid(), signal.{name})  # here", code=-getattr(signal, name)
    )
    assert not run.rank.of("end")
    (fault,) = run.folder.glob("fault-x-*.txt")
    said = fault.read_text()
    assert f'File "{run.script}", line {run.line("here")} in <module>' in said


WORKERS = """
import time
class Slow(Dataset):
    def __len__(self):
        return 48
    def __getitem__(self, index):
        total = 0
        for i in range(200_000):
            total += i  # slow
        return torch.randn(8), index % 3
def main():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Slow(), batch_size=8, num_workers={count}, multiprocessing_context={context!r})
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
if __name__ == "__main__":
    main()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_workers_are_measured(tmp_path):
    run = run_script(tmp_path, WORKERS.format(context="fork", count=2))
    told = run.rank
    assert len(told.steps("index")) == 6
    assert told.of("loader")[-1]["workers"] == 2
    assert len(run.workers) == 2
    for worker in run.workers:
        start, items = worker.one("start"), worker.of("items")[-1]
        assert start["ppid"] == told.one("start")["pid"]
        assert items["loader"] == told.of("loader")[-1]["id"]
        assert (items["items"], items["batches"]) == (24, 3)
        assert items["busy"] > 0
        assert worker.one("end")
        rows = [row for record in worker.of("lines") for row in record["counts"]]
        assert max(rows, key=lambda row: row[4])[0] == "fetch"
        assert sum(row[4] for row in rows if row[3] == "__getitem__") > 0.5 * sum(row[4] for row in rows)


SPAWN = """
import os, sys, time
def train(rank, world):
    torch.distributed.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=rank, world_size=world)
    model = nn.parallel.DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(DataLoader(data(80), batch_size=8)):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step == 6 and rank == world - 1 and len(sys.argv) > 1:
            raise ValueError("of the last rank")  # raises
    time.sleep(0.2)  # torch joins gloo's thread with the interpreter's lock held, which that thread may wait for
    torch.distributed.destroy_process_group()
if __name__ == "__main__":
    torch.multiprocessing.start_processes(train, args=({count},), nprocs={count}, start_method={method!r})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_ranks_have_a_file_each(tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("no torch.distributed")
    run = run_script(tmp_path, SPAWN.format(method="fork", count=2))
    ranks = {told.one("start")["rank"]: told for told in run.ranks}
    assert set(ranks) == {None, 0, 1}
    for rank in (0, 1):
        assert ranks[rank].path.name.startswith(f"rank-{rank}-")
        assert len(ranks[rank].steps("index")) == 10
        assert ranks[rank].one("start")["world"] == 2
        assert ranks[rank].one("model")["wrapped"] == "DDP"
        assert ranks[rank].one("end")["clean"]
    assert not ranks[None].steps("index")


@pytest.mark.slow
def test_an_exception_in_a_spawned_rank_is_told_there(tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("no torch.distributed")
    run = run_script(tmp_path, SPAWN.format(method="spawn", count=1), "die", code=1)
    ranks = {told.one("start")["rank"]: told for told in run.ranks}
    died = ranks[0].one("exception")
    assert (died["exception"], died["message"], died["step"]) == ("ValueError", "of the last rank", 7)
    assert died["frames"][died["user"]][1] == run.line("raises")
    assert "ProcessRaisedException" in ranks[None].one("exception")["exception"]
