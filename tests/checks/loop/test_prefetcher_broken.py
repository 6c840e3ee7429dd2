import ast

import pytest
from mending import gone, mended
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.prefetcher_broken import PrefetcherBroken
from gpudoctor_rules.loop import prefetcher_broken

GUILTY = {
    "sick_returns_nothing": ("nothing", "batch = self.preload(iterator)"),
    "sick_last_batch": ("last", "if self.next_input is None:"),
    "sick_generator": ("last_loop", "yield images, labels"),
    "sick_no_wait": ("wait", "def next(self):"),
    "sick_first_batch": ("first", "return self.current"),
    "sick_local": ("nothing", "following = self._preload(next(iterator))"),
    "sick_held": ("last_loop", "yield current"),
    "sick_record": ("record", "class Prefetcher:"),
}


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("LOOP007")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("LOOP007"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    patient = script_patient(path)
    [finding] = examine(PrefetcherBroken, patient)
    assert (finding.detail.how, finding.span.text) == GUILTY[path.stem]
    assert finding.confidence is Confidence.SUSPECTED
    note = path.stem == "sick_record"
    assert finding.severity is (Severity.NOTE if note else Severity.ERROR)
    assert bool(finding.cost.breaks) != note
    first, _ = prescribe(prefetcher_broken, finding, patient)
    assert first.applicability is Applicability.UNSAFE
    assert bool(first.edits) != note


@pytest.mark.parametrize("path", healthy_scripts("LOOP007"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(PrefetcherBroken, script_patient(path)) == []


def test_healthy_when_the_program_waits_outside():
    path = next(path for path in sick_scripts("LOOP007") if path.stem == "sick_no_wait")
    text = path.read_text(encoding="utf-8") + "\n\ndef use(p):\n    torch.cuda.current_stream().wait_stream(p.stream)\n"
    assert examine(PrefetcherBroken, script_patient(text)) == []


@pytest.mark.parametrize("name", sorted(set(GUILTY) - {"sick_record", "sick_no_wait"}))
def test_the_edit_cures(name):
    path = next(path for path in sick_scripts("LOOP007") if path.stem == name)
    text = path.read_text(encoding="utf-8")
    assert gone("LOOP007", text)
    new = mended(text, select="LOOP007")
    ast.parse(new)
    assert mended(new, select="LOOP007") == new


def test_the_wait_is_put_first():
    path = next(path for path in sick_scripts("LOOP007") if path.stem == "sick_no_wait")
    new = mended(path.read_text(encoding="utf-8"), select="LOOP007")
    assert "def next(self):\n        torch.cuda.current_stream().wait_stream(self.stream)\n" in new
    [note] = examine(PrefetcherBroken, script_patient(new))
    assert note.detail.how == "record"


GENERATOR = """
    import torch
    class Ahead:
        def __init__(self, loader):
            self.loader = loader
        def __iter__(self):
            stream = torch.cuda.Stream()
            batch = None
            for following in self.loader:
                with torch.cuda.stream(stream):
                    following = following.cuda(non_blocking=True)
                    {inside}
                torch.cuda.current_stream().wait_stream(stream)
                {outside}
                batch = following
            yield batch
    for x in Ahead(torch.utils.data.DataLoader(torch.randn(99, 8))):
        print(x)
"""


@pytest.mark.parametrize(("place", "how"), [("inside", []), ("outside", ["record"])])
def test_a_generator_that_yields_inside_its_stream(place, how):
    """Its consumer works on that stream: what the next copy may take is free there in order."""
    lines = {"inside": "pass", "outside": "pass"} | {place: "if batch is not None: yield batch"}
    found = examine(PrefetcherBroken, script_patient(GENERATOR.format(**lines)))
    assert [item.detail.how for item in found] == how
