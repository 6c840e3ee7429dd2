"""No wording takes long on a line that was made to attack it."""

import re
import time

import pytest

from gpudoctor.analysis.job_log.consequences import consequences, harmless
from gpudoctor.engine.registry import load_registry
from gpudoctor.model.message_cues import cues_of

WORDINGS = [*(item for _, item in load_registry().log_messages()), *consequences(), *harmless()]
SECONDS = 0.5
LENGTH = 4000


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda item: item.kind)
def test_an_adversarial_line_is_searched_at_once(wording):
    pattern = re.compile(wording.pattern)
    words = [*re.findall(r"[A-Za-z][A-Za-z _/.-]{2,}", wording.pattern)[:6], *filter(None, cues_of(wording)[:3])]
    for word in [*words, " ", "0", "1.", "a", "(", "\n"]:
        for text in (
            f"{word} " * LENGTH,
            word * LENGTH,
            f"{word}\n" * LENGTH,
            word + " " * LENGTH,
            word + "a" * LENGTH,
        ):
            begun = time.process_time()
            pattern.search(text[:LENGTH])
            assert time.process_time() - begun < SECONDS, (wording.kind, word)
