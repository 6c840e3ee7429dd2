"""OBS001 from config files."""

from configs import config_patient

from gpudoctor.testing import examine
from gpudoctor_checks.observability.profiler_in_loop import ProfilerInLoop


def test_healthy_when_the_run_ends_before_the_second_time() -> None:
    text = "training:\n  max_steps: 100\nmonitor:\n  flops_profile_freq: 100\n"
    assert examine(ProfilerInLoop, config_patient(text)) == []
