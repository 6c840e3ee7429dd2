from scripts import script_patient, sick_scripts

from gpudoctor.testing import examine
from gpudoctor_checks.loop.prefetcher_broken import PrefetcherBroken


def test_healthy_when_the_program_waits_outside():
    path = next(path for path in sick_scripts("LOOP007") if path.stem == "sick_no_wait")
    text = path.read_text(encoding="utf-8") + "\n\ndef use(p):\n    torch.cuda.current_stream().wait_stream(p.stream)\n"
    assert examine(PrefetcherBroken, script_patient(text)) == []
