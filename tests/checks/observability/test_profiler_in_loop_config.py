"""OBS001 from config files."""

from pathlib import Path

import pytest
from configs import config_files, config_patient

from gpudoctor.model import Setting, Severity, TextEdit
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.observability.profiler_in_loop import ProfilerInLoop
from gpudoctor_rules.observability import profiler_in_loop

NOTE = Severity.NOTE

EXPECTED = {
    "sick_sections.yaml": ("monitor.all_freq.flops_profile_freq", 5, NOTE, "500"),
    "sick_sections.json": ("profiler.profile_freq", 5, NOTE, "500"),
    "sick_sections.toml": ("monitor.flops_profile_freq", 7, NOTE, "500"),
    "sick_deepspeed.json": ("flops_profiler.enabled", 5, NOTE, "false"),
}


def test_every_file_is_named() -> None:
    assert {path.name for path in config_files("OBS001", "sick")} == set(EXPECTED)


@pytest.mark.parametrize("path", config_files("OBS001", "sick"), ids=lambda path: path.name)
def test_sick_files(path: Path) -> None:
    patient = config_patient(path)
    [finding] = examine(ProfilerInLoop, patient)
    key, line, severity, value = EXPECTED[path.name]
    [setting] = finding.evidence
    assert isinstance(setting, Setting)
    assert (setting.key, setting.line, finding.severity) == (key, line, severity)
    [remedy] = prescribe(profiler_in_loop, finding, patient)
    assert value in remedy.title
    for edit in remedy.edits:
        assert isinstance(edit, TextEdit)
        assert edit.new_text == value
        assert edit.expected in path.read_text("utf-8").split("\n")[edit.line - 1]


@pytest.mark.parametrize("path", config_files("OBS001", "healthy"), ids=lambda path: path.name)
def test_healthy_files(path: Path) -> None:
    assert examine(ProfilerInLoop, config_patient(path)) == []


def test_sick_period_moves_with_the_threshold() -> None:
    patient = config_patient("monitor:\n  flops_profile_freq: 100\n")
    assert len(examine(ProfilerInLoop, patient)) == 1
    assert examine(ProfilerInLoop, patient, profile_period=100) == []


def test_healthy_when_the_run_ends_before_the_second_time() -> None:
    text = "training:\n  max_steps: 100\nmonitor:\n  flops_profile_freq: 100\n"
    assert examine(ProfilerInLoop, config_patient(text)) == []
