import pytest
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.prefetcher_broken import PrefetcherBroken
from gpudoctor_rules.loop import prefetcher_broken

GUILTY = {
    "sick_returns_nothing": ("nothing", "batch = self.preload(iterator)"),
    "sick_last_batch": ("last", "if self.next_input is None:"),
    "sick_no_wait": ("wait", "def next(self):"),
    "sick_local": ("nothing", "following = self._preload(next(iterator))"),
}


@pytest.mark.parametrize("path", sick_scripts("LOOP007"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    patient = script_patient(path)
    [finding] = examine(PrefetcherBroken, patient)
    assert (finding.detail.how, finding.span.text) == GUILTY[path.stem]
    assert finding.confidence is Confidence.SUSPECTED
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    first, _ = prescribe(prefetcher_broken, finding, patient)
    assert first.steps and not first.edits
    assert first.title.split()[0] == {"nothing": "return", "last": "test", "wait": "wait"}[finding.detail.how]


@pytest.mark.parametrize("path", healthy_scripts("LOOP007"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(PrefetcherBroken, script_patient(path)) == []


def test_healthy_when_the_program_waits_outside():
    path = next(path for path in sick_scripts("LOOP007") if path.stem == "sick_no_wait")
    text = path.read_text(encoding="utf-8") + "\n\ndef use(p):\n    torch.cuda.current_stream().wait_stream(p.stream)\n"
    assert examine(PrefetcherBroken, script_patient(text)) == []
