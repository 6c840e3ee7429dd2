"""An error at the end of a log that no wording knows: by its level or words."""

import re
from collections.abc import Callable, Sequence

from gpudoctor.vitals.job_log.envelopes import HEADER
from gpudoctor.vitals.job_log.line_prefix import OF_KERNEL, PrefixedLine, of_error_level, of_low_level, plain
from gpudoctor.vitals.job_log.opening import text_of
from gpudoctor.vitals.job_log.progress import says_done, step_of
from gpudoctor.vitals.job_log.tracebacks import GOES_ON, loose_exception

_FRAME = re.compile(r'^\s*File "[^"]{1,500}", line \d{1,8}')
_OF_TRACEBACK = 200
"""Lines of a traceback that the end of the log cuts."""
_LOOKED_AT = 40
"""Lines with words, before the end, among which such an error is sought."""
_BEHIND = 3
"""Other lines behind it: a program that prints more of them went on."""
_APART = 4
"""Other lines between two errors of one end: the first of them counts."""
_LEVEL = re.compile(r"\[NeMo [EC] |^[EF]\d{4} \d\d:|\"level(?:name)?\": ?\"(?:error|fatal|critical)\"", re.IGNORECASE)
OF_LOW_LEVEL = re.compile(
    r"^[WID]\d{4} \d\d:|(?:^|\s)[WID] (?:tensorflow|external)/|\bwarn|\w{1,40}Warning: ", re.IGNORECASE
)
"""Lower levels, as glog, TensorFlow and others write them."""
_WARNED = re.compile(r"\S{1,300}\.py:\d{1,7}: (?!\w{0,80}(?:error|exception)\b)", re.IGNORECASE)
"""How Python prints a warning, with its category or, as Lightning does, without."""
_NAMED = re.compile(
    r"(?:^|[\s:>\]])(?:fatal|panic|error)(?: error)?: \S|"
    r"^\[?(?:error|fatal|panic|abort(?:ed|ing)?)\b(?![ _]?rate)|^thread '[^']{0,80}' (?:\(\d+\) )?panicked at ",
    re.IGNORECASE,
)
"""A line that calls itself an error."""
_SAID = re.compile(
    r"\b(?:failed to|unable to|could not|couldn't|cannot|can't|not permitted|no such|refused|denied|giving up|"
    r"unrecoverable|rejected|is not (?:an? )?(?:valid|supported|available|allowed|recognized))\b",
    re.IGNORECASE,
)
"""Words of errors, which ordinary lines have, too: they count in the last line only."""
_OF_MESSAGE = re.compile(
    r"(?:CUDA|HIP) kernel errors might be|For debugging consider passing |Compile with `TORCH_USE_|"
    r"Search for `\w"
)
"""How further lines of torch's message of a GPU's error begin."""
_MEASURE = re.compile(
    r"\b(?:errors?|fail(?:ed|ures?))\b[^:=]{0,30}[:=]\s*[\[(]?[-+]?(?:\d|nan\b|none\b|\])|"
    r"\b(?:0|no|zero|without) (?:errors?|failures?)\b",
    re.IGNORECASE,
)
"""An error that is measured or counted."""


def unknown_error(
    pieces: Sequence[tuple[bytes, int]],
    take_apart: Callable[[str], PrefixedLine],
    is_known: Callable[[str], bool],
    *,
    at_death: bool,
) -> tuple[int, str] | None:
    """The first of the errors at the end of these pieces: its line, and the line with its prefixes.

    `is_known` says whether a wording has a line. `at_death`: the pieces end where the job began to die.
    """
    found: tuple[int, str] | None = None
    others, apart, looked_at, behind = 0, _APART if at_death else _BEHIND, 0, ""
    for raw, number in reversed(pieces):
        whole = plain(text_of(raw[:4096])).strip()
        text = take_apart(whole).text.strip()
        if not text or _OF_MESSAGE.match(text):
            continue
        looked_at += 1
        if looked_at > _LOOKED_AT or step_of(text) is not None or says_done(text):
            break
        went_on, behind = GOES_ON.search(behind) is not None, text
        weak = found is None and others == 0
        if not went_on and _says_error(whole, text, weak=weak) and not is_known(text):
            found, others, apart = (number, whole), 0, _APART
        else:
            others += 1
            if others > apart:
                break
    return found


def cut_traceback(
    pieces: Sequence[tuple[bytes, int]], take_apart: Callable[[str], PrefixedLine]
) -> tuple[int, str] | None:
    """The innermost frame of a traceback that the end of the log cuts: its line and text, prefixes included.

    Its header, if that is the last line. None if the log does not end with the lines of a frame.
    """
    frame: tuple[int, str] | None = None
    words_behind = False
    for looked_at, (raw, number) in enumerate(reversed(pieces[-_OF_TRACEBACK:])):
        whole = plain(text_of(raw[:4096])).rstrip()
        text = take_apart(whole).text
        if HEADER in text:
            return frame or (None if words_behind else (number, whole))
        if _FRAME.match(text):
            frame = frame or (number, whole)
        elif text[:1] not in (" ", "\t", "") or (frame is None and looked_at > _BEHIND):
            return None
        words_behind = words_behind or bool(text.strip())
    return None


def _says_error(whole: str, text: str, *, weak: bool) -> bool:
    if OF_KERNEL.search(whole[:120]):
        return False  # the kernel prints errors of all kinds, few of them of the job
    if (
        _WARNED.match(text)
        or of_low_level(whole)
        or OF_LOW_LEVEL.search(whole[:80])
        or _MEASURE.search(text)
        or GOES_ON.search(text)
    ):
        return False
    if loose_exception(text) is not None:
        return False  # it is an event, or was judged to be none
    if of_error_level(whole) or _LEVEL.search(whole[:300]) or calls_itself_error(text):
        return True
    return weak and _SAID.search(text) is not None


def calls_itself_error(text: str) -> bool:
    """Whether a line, its prefixes taken off, has the level of an error or begins with its word."""
    return of_error_level(text) or _NAMED.search(text[:200]) is not None
