"""Changes that the user names, and the search for a batch, on a bench without processes."""

import json
import re
import shlex
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.model.proof import Conclusion
from gpudoctor.trial.batch import find_batch
from gpudoctor.trial.session import TrialSession
from gpudoctor.trial.trial_runner import Arm, TrialRun
from gpudoctor.trial.trial_verdict import summarise_trials, verdict_words
from gpudoctor.trial.vary import against, varied, with_value
from gpudoctor.trial.window import TrialWindow

COMMAND = ("python", "train.py", "--batch_size", "8", "lr=0.1", "+depth=2")


def test_a_key_is_an_argument_as_the_command_spells_it_or_an_override():
    assert with_value("batch-size", "16", COMMAND).arguments == {"--batch_size": "16"}
    assert with_value("--new", "1", COMMAND).arguments == {"--new": "1"}
    assert with_value("lr", "1", COMMAND).arguments == {"lr": "1"}
    assert with_value("depth", "3", COMMAND).arguments == {"+depth": "3"}
    assert with_value("DataLoader.num_workers", "2", COMMAND).overrides == {"DataLoader.num_workers": "2"}
    assert with_value("env.OMP_NUM_THREADS", "2", COMMAND).environment == {"OMP_NUM_THREADS": "2"}
    assert [(title, arm.name) for title, arm in varied("lr=1, 2", COMMAND)] == [("lr=1", "lr=1"), ("lr=2", "lr=2")]


def test_another_command_must_be_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other one.py").touch()
    python = shlex.quote(sys.executable)
    assert against(f"{python} 'other one.py'")[1].command == (sys.executable, "other one.py")
    assert against(f"{python} -m other --x nosuch.py")[0].endswith("nosuch.py")
    for text, words in (
        ("", "no command"), ("x 'y", "No closing quotation"), ("no-such-command-42 x.py", "command not found"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            against(text)


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = {"zero_optimization": {"stage": 2, "overlap_comm": True}, "train_batch_size": "auto", "name": "a"}
    (tmp_path / "ds.json").write_text(json.dumps(table))
    (tmp_path / "hf.yaml").write_text("lr: 0.1\nlayers: [4, 8]\nnote: null\n")
    return tmp_path


@pytest.mark.parametrize(
    ("key", "value", "changed"),
    [
        ("ds.json:zero_optimization.stage", "1", {"stage": 1, "overlap_comm": True}),
        ("./ds.json:zero_optimization.overlap_comm", "false", {"stage": 2, "overlap_comm": False}),
    ],
)
def test_a_key_of_a_config_is_changed_in_memory(config, key, value, changed):
    before = (config / "ds.json").read_text()
    arm = with_value(key, value, COMMAND)
    [(path, text)] = arm.texts.items()
    assert (path, arm.name) == (str(config / "ds.json"), f"{key}={value}")
    assert json.loads(text) == {**json.loads(before), "zero_optimization": changed}
    assert (config / "ds.json").read_text() == before


def test_values_keep_the_kind_that_is_there(config):
    def value(key: str, text: str):
        [new] = with_value(key, text, COMMAND).texts.values()
        return new

    assert json.loads(value("ds.json:train_batch_size", "8"))["train_batch_size"] == 8
    assert json.loads(value("ds.json:name", "8"))["name"] == "8"
    assert value("hf.yaml:lr", "1e-4").startswith("lr: 0.0001\n")
    assert "- 4\n- 16\n" in value("hf.yaml:layers.1", "16")
    assert "note: new" in value("hf.yaml:note", "new")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no.json:a=1", "no.json: cannot be read: "),
        ("ds.json:stage=1", "no key stage"),
        ("ds.json:zero_optimization.stge=1", "no key zero_optimization.stge"),
        ("ds.json:zero_optimization=1", "zero_optimization is a section"),
    ],
)
def test_what_a_config_does_not_have_is_refused(config, text, said):
    (config / "bad.json").write_text("{")
    with pytest.raises(UsageError, match=re.escape(said)):
        varied(text, COMMAND)


ENDED = SimpleNamespace(stopped_by="steps")


class Machine:
    """Where a step costs a fixed time and one by the sample, memory grows with the batch and ends somewhere."""

    def __init__(self, batch: int, most: int = 1 << 30, rows: int = 1 << 30, fixed: float = 8e-3):
        self.batch, self.most, self.rows, self.fixed = batch, most, rows, fixed
        self.skip, self.steps, self.deadline, self.runs = 1, 21, float("inf"), []

    def lap(self, arm: Arm) -> TrialRun:
        batch = int(arm.overrides.get("DataLoader.batch_size", self.batch))
        self.runs.append(batch)
        if batch > self.most:
            return TrialRun(finished=ENDED, recording=None, window=None, problem="CUDA out of memory")
        size = min(batch, self.rows)
        found = TrialWindow(
            first=1, steps=20, seconds=self.fixed + 1e-4 * size, samples=float(size), losses={},
            memory=1000 + 10 * size,
        )  # fmt: skip
        return TrialRun(finished=ENDED, recording=None, window=found)


def arm_of(batch: int) -> Arm:
    return Arm(name=f"batch={batch}", overrides={"DataLoader.batch_size": str(batch)})


def search(machine: Machine, limit: float | None = None):
    session = TrialSession(bench=machine, budget=60.0)
    find_batch(session, machine.batch, arm_of, limit)
    rows = summarise_trials(session).rows
    ran = [int(row.title.split()[1]) for row in rows if row.conclusion is Conclusion.MEASURED]
    failed = [int(row.title.split()[1]) for row in rows if row.conclusion is Conclusion.TOO_MUCH]
    return session, ran, failed


def test_the_batch_is_doubled_until_one_does_not_fit():
    session, ran, failed = search(Machine(16, most=100))
    assert (ran, failed) == ([16, 32, 64], [128])
    [attempt] = session.attempts
    assert attempt.name == "batch=64"
    words = verdict_words(summarise_trials(session), "sick")
    assert "The largest that ran is batch 64" in words


def test_the_search_ends_where_greater_batches_bring_nothing_or_the_data_ends():
    _, ran, _ = search(Machine(64, fixed=1e-4))
    assert ran == [64, 128, 256]
    _, ran, _ = search(Machine(16, rows=40))
    assert ran == [16, 32, 64, 128]


def test_a_try_that_our_time_cut_says_nothing_of_its_batch():
    class Slow(Machine):
        def lap(self, arm: Arm) -> TrialRun:
            made = super().lap(arm)
            if made.problem:  # the time went by
                session.budget = 0.0
                made = replace(made, finished=SimpleNamespace(stopped_by="seconds"), problem="no end within 9 s")
            return made

    session = TrialSession(bench=Slow(16, most=40), budget=60.0)
    find_batch(session, 16, arm_of, None)
    rows = {row.title: (row.conclusion, row.reason) for row in summarise_trials(session).rows}
    assert rows["batch 64"] == (Conclusion.NOT_TRIED, "the time ran out; give more with --budget")
    assert [row for row, (how, _) in rows.items() if how is Conclusion.TOO_MUCH] == []
