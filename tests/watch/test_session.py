"""The ticks of a watch: its heading, and a first sentence that counts what the panels count."""

from dataclasses import replace

import pytest
from windows import make_rank, make_window

from gpudoctor.engine.examination import Request
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.watch import session


@pytest.mark.parametrize(
    ("command", "heading"),
    [
        ("python train.py --lr 3e-4", "train.py"),
        ("python -W ignore -X dev train.py --lr 3e-4", "train.py"),
        ("python -m pkg.train --lr 3e-4", "pkg.train"),
        ("python -W ignore -m pkg.train", "pkg.train"),
        ("/opt/app/trainer --size 3", "trainer"),
    ],
)
def test_the_heading_is_the_program_and_not_an_option_of_python(command, heading):
    assert session.program(make_rank(command=tuple(command.split()))) == heading


def test_the_first_sentence_counts_the_samples_until_there_are_enough_for_an_examination(monkeypatch):
    found = iter([0, 12, 40])

    class Watcher:
        def __init__(self, *_args, **_named):
            self.at = 0.0

        def tick(self):
            number, self.at = next(found), self.at + 0.5
            return replace(make_window([make_rank(looks={"data_wait": number})]), t=self.at)

        def survey(self):
            return None

    monkeypatch.setattr(session, "Watcher", Watcher)
    registry = load_registry()
    watch = session.WatchSession([4711], Request(registry=registry, selection=make_selection(registry, [], [])))
    assert "no stack sample yet" in watch.tick().report.summary.verdict
    assert "12 of 30 stack samples so far" in watch.tick().report.summary.verdict
    last = watch.tick().report
    assert "waits" in last.summary.verdict and [item.finding.code for item in last.findings][:1] == ["DATA001"]
