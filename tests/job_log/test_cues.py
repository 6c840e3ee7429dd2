"""Every text that a wording's pattern matches gets past its cues: without one the pattern is never tried."""

import re
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]

import pytest

from gpudoctor.analysis.job_log.consequences import consequences, harmless
from gpudoctor.engine.registry import load_registry
from gpudoctor.model.log_message import LogMessage
from gpudoctor.model.message_cues import cues_of
from gpudoctor.vitals.job_log.wordings import Messages, bare

MOST = 400
"""Texts of one part of a pattern that are followed."""
FILLER = "z"
_NEVER = ("@never@",)
OF_CATEGORY = {
    sre.CATEGORY_DIGIT: "5",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_WORD: "w",
    sre.CATEGORY_NOT_DIGIT: FILLER,
    sre.CATEGORY_NOT_SPACE: FILLER,
    sre.CATEGORY_NOT_WORD: " ",
}


def of_class(items):
    """Characters of a class in brackets: each that it names, one of each range."""
    if items[0][0] is sre.NEGATE:
        accepted = [item for item in "z y5_/'~" if not any(in_class(one, item) for one in items[1:])]
        return accepted[:1]
    found = [
        chr(value) if code is sre.LITERAL else chr(value[0]) if code is sre.RANGE else OF_CATEGORY[value]
        for code, value in items
    ]
    return list({item.lower(): item for item in reversed(found)}.values())[:6]


def in_class(item, letter):
    code, value = item
    if code is sre.LITERAL:
        return chr(value) == letter
    if code is sre.RANGE:
        return value[0] <= ord(letter) <= value[1]
    kinds = {"DIGIT": letter.isdigit(), "SPACE": letter.isspace(), "WORD": letter.isalnum() or letter == "_"}
    name = str(value).removeprefix("CATEGORY_")
    return kinds[name.removeprefix("NOT_")] is not name.startswith("NOT_")


def texts(tree, cues, wide):
    """The shortest texts of each alternative that hold no cue; `wide` fills gaps that may be empty."""
    found = [""]
    for code, value in tree:
        if code is sre.LITERAL:
            parts = [chr(value)]
        elif code is sre.NOT_LITERAL or code is sre.ANY:
            parts = [FILLER]
        elif code is sre.IN:
            parts = of_class(value)
        elif code in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, inner = value
            once = texts(inner, cues, wide)
            if least:
                parts = [part * least for part in once]
            elif most == 1:
                parts = ["", *once]
            else:
                parts = ([f" {FILLER} "] if inner[0][0] is sre.ANY else once) if wide else [""]
        elif code is sre.SUBPATTERN:
            parts = texts(value[3], cues, wide)
        elif code is sre.BRANCH:
            parts = [part for branch in value[1] for part in texts(branch, cues, wide)]
        else:
            assert code in (sre.AT, sre.ASSERT, sre.ASSERT_NOT), code
            continue
        both = dict.fromkeys(first + part for first in found for part in parts)
        found = [text for text in both if not any(cue in text.lower() for cue in cues)][:MOST]
    return found


def matched(message, cues=()):
    """Texts that the pattern matches and that hold none of these cues."""
    tree, search = _parser.parse(message.pattern), re.compile(message.pattern).search
    for wide in (False, True):
        for text in texts(tree, cues, wide):
            for form in (text, f"{FILLER} {text}", f"{text} {FILLER}"):
                if search(form) and not any(cue in form.lower() for cue in cues):
                    yield form
                    break


WORDINGS = [
    (code, message)
    for code, message in (
        *load_registry().log_messages(),
        *(("", message) for message in (*consequences(), *harmless())),
    )
    if cues_of(message) not in (_NEVER, ("",))
]


def test_no_text_matches_a_pattern_without_a_cue():
    dead = {f"{code} {item.kind}: {text}" for code, item in WORDINGS for text in matched(item, cues_of(item))}
    assert not dead, "\n".join(sorted(dead)[:40])


def test_no_sentence_keeps_a_name_in_braces():
    left = set()
    for code, item in WORDINGS:
        template = re.sub(r"\[[^\]]*\]", "", item.text)
        for text in matched(item):
            found = re.search(item.pattern, text)
            groups = found.groupdict() if found is not None else {}
            left |= {
                (code, item.kind, name)
                for name in re.findall(r"\{(\w+)\}", template)
                if name in groups and groups[name] is None
            }
    assert not left


def test_each_wording_is_tried_on_the_texts_that_it_matches():
    table = Messages(tuple(load_registry().log_messages()))
    for number, item in enumerate(table.all):
        message = item.message
        if cues_of(message) in (_NEVER, ("",)):
            continue
        for text, _ in zip(matched(message), range(20), strict=False):
            assert number in {of for _, of in table._candidates(bare(text.lower().encode()))}, (message.kind, text)


@pytest.mark.parametrize(
    ("pattern", "cue", "dead"),
    [
        ("gone by (?:user|hand)", "gone by user", {"gone by hand"}),
        ("the (?:old )?size", ("the size",), {"the old size"}),
        ("a (?:b|c) (?:d|e)", ("b d", "c ", " e"), set()),
        ("[Ss]topped[ -]here", ("stopped here",), {"Stopped-here"}),
    ],
)
def test_the_examples_show_what_no_cue_covers(pattern, cue, dead):
    message = LogMessage(kind="x", cue=cue, pattern=pattern, text="")
    assert set(matched(message, (cue,) if isinstance(cue, str) else cue)) == dead
