"""`gpudoctor watch` without a screen: bad input, reports, streams."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest
from command import begin
from watched import READY, training

from gpudoctor.cli import main, watch
from gpudoctor.errors import IncompleteError
from gpudoctor.model.watch import FoundJob
from gpudoctor.report import json as json_report
from gpudoctor.vitals.process.dump import find_pyspy
from gpudoctor.watch import find_jobs

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
needs_pyspy = pytest.mark.skipif(find_pyspy() is None, reason="no py-spy")
LOOP = READY + (
    "from torch.utils.data.dataloader import Loader\n"
    "from torch._tensor import backward\n"
    "def main():\n"
    "    for batch in Loader(0.06):\n"
    "        backward(0.01)\n"
    "main()\n"
)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["watch", "0"], 2, "below 1"),
        (["watch", "train.py"], 2, "not a whole number"),
        (["watch", "4194303", "--once"], 3, "there is no process 4194303"),
        (["watch", "1"], 2, "needs a terminal"),
        (["watch", "1", "--once", "--interval", "0"], 2, "not a positive number"),
        (["watch", "1", "--once", "--output", "/nowhere/x"], 2, "does not exist"),
    ],
)
def test_bad_input_is_a_sentence_and_an_exit_code(words, code, sentence, capsys):
    assert main(words) == code
    captured = capsys.readouterr()
    assert sentence in captured.err and captured.out == ""


@pytest.mark.parametrize(
    ("pids", "code", "told", "listed"),
    [([], 2, "no process that you may read", False), ([5], 3, "the only training here is pid 5", False),
     ([5, 6], 2, "2 trainings run", True)],
)  # fmt: skip
def test_without_a_pid_it_attaches_to_the_only_training_or_lists_them(monkeypatch, capsys, pids, code, told, listed):
    jobs = [
        FoundJob(pid=pid, ranks=(pid,), user="me", seconds=60.0, gpus=None, command=f"python t{pid}.py") for pid in pids
    ]
    monkeypatch.setattr(find_jobs, "find_jobs", lambda: jobs)

    def attach(arguments, stack):
        raise IncompleteError(f"asked for {arguments.targets}")

    monkeypatch.setattr(watch, "open_session", attach)
    assert main(["watch", "--once"]) == code
    captured = capsys.readouterr()
    assert told in captured.err and ("python t6.py" in captured.out) is listed
    assert ("asked for [5]" in captured.err) is (pids == [5])
    assert captured.out.endswith("\nwatch one: gpudoctor watch 5\n") is listed


@contextmanager
def stream(folder, child):
    """`gpudoctor watch PID --json`, forked; at the end it is waited for, after the child if the test has failed."""
    words = ("watch", str(child.pid), "--json", "--interval", "0.3")
    watch = begin(*words, cwd=folder, said=folder / "said", name="stream", timeout=60, trainings=0)
    try:
        yield watch
    except BaseException:
        child.kill()
        raise
    finally:
        watch.wait()


@needs_pyspy
def test_a_report_of_a_loop_that_waits_for_its_loader(tmp_path, capsys):
    with training(tmp_path, "train.py", LOOP) as child:
        code = main(["watch", str(child.pid), "--duration", "4", "--format", "json", "--quiet"])
        assert child.poll() is None
    report = json.loads(capsys.readouterr().out)
    schema = Path(json_report.__file__).with_name("report-1.schema.json").read_text(encoding="utf-8")
    jsonschema.validate(report, json.loads(schema))
    assert code in (0, 1)
    assert report["patient"]["kind"] == "process" and report["patient"]["title"].startswith("train.py (pid")
    phases = report["run"]["phases"]
    assert max(phases, key=phases.get) == "data_wait", phases
    assert sum(phases.values()) == pytest.approx(1.0)


@needs_pyspy
def test_a_stream_has_a_report_a_line_and_ends_with_the_process(tmp_path):
    with training(tmp_path, "train.py", LOOP) as child:
        with stream(tmp_path, child) as watch:
            first = json.loads(watch.readline())
            child.kill()
            child.wait()
        rest, _ = watch.communicate()
    assert first["schema"] == "gpudoctor.report/1"
    last = json.loads(rest.splitlines()[-1])
    assert "has ended" in last["summary"]["verdict"]
    assert watch.returncode in (0, 1)


def test_the_list_of_training_processes_is_a_table_or_json(capsys):
    assert main(["watch", "--find"]) == 0
    text = capsys.readouterr().out
    assert "PID" in text or "No process that you may read has loaded torch" in text
    assert main(["watch", "--find", "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), list)
