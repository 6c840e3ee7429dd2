"""CFG006 from config files."""

from pathlib import Path

import pytest
from configs import config_files, config_patient, parse
from some import some

from gpudoctor.model import Confidence, Setting, Severity, TextEdit, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.config.frequencies import Frequencies
from gpudoctor_rules.config import frequencies

NOTE = Severity.NOTE
HF = "output_dir: o\nper_device_train_batch_size: 1\nnum_train_epochs: 1\n"

EXPECTED = {
    "sick_transformers.yaml": {("logging_steps", 9): NOTE, ("eval_steps", 11): NOTE, ("save_steps", 13): NOTE},
    "sick_transformers_args.json": {("logging_steps", 6): NOTE},
    "sick_llama_factory.yaml": {("logging_steps", 14): NOTE, ("save_steps", 15): NOTE},
    "sick_axolotl.yml": {("logging_steps", 9): NOTE, ("eval_steps", 10): NOTE},
    "sick_torchtune.yaml": {("log_every_n_steps", 8): NOTE},
    "sick_lightning.yaml": {
        ("trainer.log_every_n_steps", 6): NOTE,
        ("trainer.val_check_interval", 7): NOTE,
        ("trainer.callbacks[0].init_args.every_n_train_steps", 11): NOTE,
    },
    "sick_deepspeed.json": {("steps_per_print", 3): NOTE},
    "sick_sections.yaml": {("monitor.all_freq.training_log_freq", 12): NOTE},
    "sick_sections.toml": {("monitor.training_log_freq", 8): NOTE, ("monitor.save_interval", 9): NOTE},
    "sick_longer_than_run.yaml": {("logging_steps", 4): NOTE},
}


def test_every_file_is_named() -> None:
    assert {path.name for path in config_files("CFG006", "sick")} == set(EXPECTED)


FILES = [*config_files("CFG006", "sick"), *config_files("CFG006", "healthy")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_sick_and_healthy_files(path: Path) -> None:
    findings = examine(Frequencies, config_patient(path))
    settings = [(finding.evidence[0], finding.severity) for finding in findings]
    assert all(isinstance(setting, Setting) and setting.path == str(path) for setting, _ in settings)
    assert all(finding.confidence is Confidence.SUSPECTED for finding in findings)
    assert {(setting.key, setting.line): severity for setting, severity in settings} == EXPECTED.get(path.name, {})


def test_sick_evaluation_takes_its_period_from_logging() -> None:
    findings = examine(Frequencies, config_patient(HF + "eval_strategy: steps\nlogging_steps: 10\n"))
    assert [finding.message for finding in findings] == [
        "logging_steps=10 evaluates every 10 steps; the norm is 50 or more."
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [("logging_steps: 10", 0), ("save_steps: 50", 0), ("max_steps: 20\nlogging_steps: 1", 0), ("logging_steps: 9", 1),
     ("save_steps: 49", 1)],
)  # fmt: skip
def test_sick_and_healthy_at_the_limit(line: str, found: int) -> None:
    assert len(examine(Frequencies, config_patient(HF + line + "\n"))) == found


def test_skipped_without_source_and_configs() -> None:
    with pytest.raises(Unavailable):
        examine(Frequencies, make_patient())


@pytest.mark.parametrize("path", config_files("CFG006", "sick"), ids=lambda path: path.name)
def test_the_remedy_names_the_number_and_cures(path: Path) -> None:
    patient = config_patient(path)
    text = path.read_text("utf-8")
    edits: dict[tuple[int, int], TextEdit] = {}
    for finding in some(examine(Frequencies, patient)):
        [remedy] = prescribe(frequencies, finding, patient)
        [edit] = remedy.edits
        assert isinstance(edit, TextEdit)
        assert edit.new_text in remedy.title
        edits[edit.line, edit.column] = edit
    for edit in some(sorted(edits.values(), key=lambda edit: (edit.line, edit.column), reverse=True)):
        lines = text.split("\n")
        line = lines[edit.line - 1]
        assert line[edit.column - 1 : edit.end_column - 1] == edit.expected
        lines[edit.line - 1] = line[: edit.column - 1] + edit.new_text + line[edit.end_column - 1 :]
        text = "\n".join(lines)
    cured = parse(str(path), text)
    before = parse(str(path), path.read_text("utf-8"))
    assert set(cured.entries) == set(before.entries)
    assert examine(Frequencies, config_patient(cured)) == []
