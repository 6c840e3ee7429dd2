"""Runs whose loop is a framework's: its settings are named, and its own work is not the program's."""

import pytest
from recordings import lines, make_process, make_recording, make_steps, record, site

from gpudoctor.analysis.run.line_ownership import LineOwner, owned
from gpudoctor.analysis.run.steady_run import judged
from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_packages, make_patient, make_torch, prescribe

REGISTRY = load_registry()
START = 50
"""The line of `trainer.train()`."""


def loop(engine):
    return record("loop", 1.5, marker="optimizer", path="/job/train.py", line=START, function="<module>", engine=engine)


def look(code, *records, steps=None, rank_count=1, **columns):
    table = steps if steps is not None else make_steps(200, **columns)
    ranks = [make_process(table, records=records, rank=rank, world=rank_count) for rank in range(rank_count)]
    patient = make_patient(recording=make_recording(*ranks))
    found = examine(REGISTRY.checks[code], patient)
    return patient, found


def titles(code, patient, finding):
    return [item.title for rule in REGISTRY.rules.get(code, ()) for item in prescribe(rule, finding, patient)]


@pytest.mark.parametrize(
    ("engine", "code", "phase", "what", "title"),
    [
        ("transformers.Trainer", "OBS002", "logging", "Trainer.log", "logging_steps=50"),
        ("lightning", "OBS002", "logging", "SummaryWriter.add_scalar", "log_every_n_steps=50"),
        ("transformers.Trainer", "OBS003", "checkpoint", "Trainer._save_checkpoint", "save_steps=98"),
        ("lightning", "OBS003", "checkpoint", "Trainer.save_checkpoint", "ModelCheckpoint(every_n_train_steps=98)"),
        ("transformers.Trainer", "OBS004", "evaluation", "Trainer.evaluate", "eval_steps=98"),
        ("lightning", "OBS004", "evaluation", "_EvaluationLoop", "val_check_interval=98"),
    ],
)  # fmt: skip
def test_what_an_engine_does_too_often_is_a_setting(engine, code, phase, what, title):
    here = site(phase, what, 1.0, 100, line=START)
    patient, [finding] = look(code, loop(engine), here, **{phase: 0.01})
    assert titles(code, patient, finding) == [title]


def test_what_an_engine_does_by_itself_is_called_so():
    seen = lines(
        ("other", "/job/train.py", START, "<module>", 80), ("optimizer", "/job/train.py", START, "<module>", 20)
    )
    patient, [finding] = look("PERF014", loop("lightning"), seen, other=0.01)
    assert finding.severity is Severity.NOTE
    assert "the loop of lightning itself" in finding.message
    assert "train.py:50" not in titles("PERF014", patient, finding)[0]


def owner(*counts):
    patient = make_patient(
        recording=make_recording(make_process(make_steps(200, other=0.01), records=[lines(*counts)]))
    )
    (item,) = owned(patient, judged(patient))
    return item.owner


def test_how_a_pass_is_called_is_part_of_it_and_more_on_its_line_is_not():
    here = ("/job/train.py", 44, "<module>")
    assert owner(("backward", *here, 60), ("other", *here, 20)) is LineOwner.COMPUTE
    assert owner(("backward", *here, 20), ("other", *here, 60)) is LineOwner.NOBODY


@pytest.mark.parametrize(
    ("what", "steps", "found"),
    [("dist.all_reduce", 200, 1), ("parallelism.all_reduce", 200, 0), ("dist.barrier", 1, 0)],
)
def test_collectives_of_the_parallelism_and_meetings_at_the_end_are_no_findings(what, steps, found):
    here = site("collective", what, 2.0, steps, line=47, steps=steps)
    patient, findings = look("DIST004", here, rank_count=2, collective=0.01)
    assert len(findings) == found
    for finding in findings:
        assert titles("DIST004", patient, finding) == ["Reduce for the log every 50 steps"]


@pytest.mark.parametrize(("exit_code", "severity"), [(0, Severity.NOTE), (1, Severity.ERROR)])
def test_a_conflict_that_a_run_got_by_with_is_a_note(exit_code, severity):
    from gpudoctor.model.signs.recording import RunEnd

    packages = make_packages(
        torch="2.9.1+cu128", transformers="5.0.0", tokenizers="0.21.4",
        requires={"transformers": ["tokenizers<0.24.0,>=0.23.1"]},
    )  # fmt: skip
    run = make_recording(make_process(make_steps(50)), end=RunEnd(exit_code=exit_code, seconds=3.0))
    patient = make_patient(packages=packages, torch=make_torch(), recording=run)
    [finding] = examine(REGISTRY.checks["ENV005"], patient)
    assert finding.severity is severity
