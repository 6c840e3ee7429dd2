"""What a line may be about, by its words: known messages, exceptions, steps, signs that a program goes on.

A log has millions of lines and few thousand that differ in more than their digits. What does not depend on digits
is found once for all lines alike (`Shape`).
"""

import re
from collections.abc import Iterable
from functools import cached_property

from gpudoctor.analysis.job_log.consequences import SERVICE, consequences, harmless
from gpudoctor.model.log_message import PLAIN, Bearing, LogMessage
from gpudoctor.model.message_cues import cues_of, cues_of_pattern
from gpudoctor.model.records import dataclass, frozen
from gpudoctor.vitals.job_log.lines import Prefixes, of_low_level, text_of
from gpudoctor.vitals.job_log.progress import DONE_CUES, has_result, says_done, step_of
from gpudoctor.vitals.job_log.tracebacks import ENDINGS, GOES_ON

_DIGITS = re.compile(r"\d[\d.,:e+-]*")
_LONGEST = 4000
_VARYING = b"0123456789.+-"
"""What differs between the lines of a loop."""
_DIGIT = re.compile(rb"\d")
_HASH = re.compile(rb"\b(?=[a-f]{0,40}[0-9])[0-9a-f]{7,}\b|0x[0-9a-f]+")
_MOST_WORDS, _LONGEST_WORD = 200_000, 200
_MOST_SHAPES, _LONGEST_ALIKE = 50_000, 1_000
"""Lines that are remembered, their digits apart, and bytes of each."""
_BEFORE_SYMPTOMS = 0.5
"""Behind the causes: a kill for memory counts, whoever reports it."""
_NAMED = re.compile(
    rf"{ENDINGS}(?=(\w{{0,80}}))\1(?:\(\w{{1,80}}\))?(?::|\s*$|\(['\"])|"  # gives no letters back
    r"(?i:traceback \(most recent call last\)|exception (?:ignored )?in|error in atexit|what\(\):|"
    r"\(most recent call first\)|thread \S+ \((?:idle|active)|^process \d{1,10}: |--- logging error|"
    r"^\W{0,80}(?:re)?(?:attempt|start|try)(?: no\.?| number)?\W{0,3}\d{1,3}\b|^status:\s{2,20}\w+\s*$|"
    r"restart_count=)"
)
"""What begins a traceback or a stack dump, the name of an exception, and the end of a run."""
_DOTTED = re.compile(r"\.(?:[A-Z]\w*|[a-z]*error)(?:\(\w{1,80}\))?: ")
_OF_FAILURES = re.compile(
    r"(?i)error|exception|fail|kill|abort|cancel|timeout|signal|cannot|unable|terminat|fault|exit|corrupt|invalid|"
    r"argument|assert|mismatch|interrupt|timed|could|found|such|bounds|memory"
)
"""Words of which the message of an exception with an unusual name has one."""
_LOW_OF_JSON = re.compile(r'(?i)^\{.*"(?:level|levelname|log_level|severity)": ?"(?:warn|info|debug)')
_SERVED = re.compile(
    r"^\[[DIW] (?:[\d-]{6,10} )?\d\d:\d\d:\d\d[.\d]* \w{1,40}App\] |"
    r"\"(?:GET|POST|PUT|PATCH|DELETE) /(?!metrics|health|ping)\S{0,2000} HTTP/[\d.]{1,3}\" 2\d\d\b"
)
"""What a server prints of a request that it answered, and Jupyter of all that it does."""
_SUCCEEDED = re.compile(
    r"worker group successfully finished|WorkerState\.SUCCEEDED|Process finished with exit code 0$|"
    r"^=+ (?!.*\b(?:failed|errors?)\b)\d+ passed\b.* in [\d.:]+ ?s|\bCOMPLETED \(exit code 0\)|"
    r"^OK(?: \([\w ,=]{1,80}\))?$|\S{1,100} {2,40}(?:Succeeded {2,40}\d{1,4}[smhd]|Complete {2,40}1/1\b)"
)
"""How a launcher says that the program ended well."""
WORLD = re.compile(
    r"(?i)world[_ ]?size['\"]?\s*[:=]\s*(\d{1,6})|nranks (\d{1,6})|"
    r"distributed init \(rank \d+, world (\d{1,6})\)|GLOBAL_RANK: \d{1,6}, MEMBER: \d{1,6}/(\d{1,6})"
)
_CUES = {
    "step": "it/s|s/it|step|iter|epoch|loss|tick|n_updates|batch|update|[:",
    "done": "|".join(DONE_CUES),
    "served": "http/|app]",
    "succeeded": "successfully finished|succeeded|exit code | passed|complete",
    "goes_on": "skip|ignor|fall|fell|try|continuing|will not be|disabl|left out|unavail",
    "low": "warn|info|debug|trace|[w |[i |[d |w ::|i ::|d ::|v ::",
    "world": "world|nranks |, member: ",
    "named": (
        "error|exception|exit|interrupt|timeout|fail|fault|iteration|abort|died|refused|unavailable|missing|found|"
        "invalid|unsupported|violation|rejected|traceback|what():|(most recent call first)|(idle|(active|process |"
        "restart_count=|attempt|start|status:|kill|cancel|signal|cannot|unable|terminat|corrupt|try|argument|assert|"
        "mismatch|timed|could|such|bounds|memory|exception "
    ),
}
"""In small letters, of which a line holds one that may be what this says."""
_OF_A_PROGRAM = re.compile(
    rb"(?!wandb:|srun:|slurmstepd|Traceback|During handling|The above exception|\[(?:rank|default)|"
    rb"(?:(?:Array )?Job ID|Cluster|User/Group|State|Nodes|Cores[ a-z]{0,20}|CPU \w+|Memory \w+|"
    rb"(?:Job Wall-clock|Submit|Start|End|Elapsed) time) ?\s?:)"
    rb"(?:\w|[\x80-\xff]|\{\"|\[\d{2,4}[-/:]\d\d)"
)
"""How an ordinary line begins: code of a traceback, frames, rulers and summaries do not."""


@dataclass(frozen=True)
class KnownMessage:
    """A wording and the code of the check whose it is; "" for consequences and harmless ones."""

    code: str
    message: LogMessage

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled once a text holds one of its cues: most logs hold few of them."""
        return re.compile(self.message.pattern)

    @cached_property
    def asks_for_digits(self) -> bool:
        """Whether it asks for certain digits or signs, which lines of a loop differ in."""
        rest = re.sub(r"\\d|\{\d{0,6},?\d{0,6}\}|0-9", "", self.message.pattern)
        return re.search(r"\d|\\[.+-]|-\d", rest) is not None


@frozen(kw_only=False)
class Match:
    """A wording that was found."""

    known: KnownMessage
    values: tuple[tuple[str, str], ...]

    @property
    def plain(self) -> bool:
        """Whether it is an exception that no wording knows."""
        return self.known.message.kind == PLAIN


@frozen(kw_only=False, eq=False)
class Shape:
    """What lines that differ in digits alone have in common."""

    ordinary: bool
    """Whether it may be one of a program that goes on."""
    reads: bool = False
    """Whether such a line may be of a failure, and is read whole."""
    tells: bool = False
    """Whether it says anything else that counts."""
    step: bool = False
    done: bool = False
    served: bool = False
    succeeded: bool = False
    goes_on: bool = False
    low: bool = False
    world: bool = False
    undone: tuple[str, ...] = ()
    """Patterns of which one may show that a failure was overcome."""
    by_digits: bool = False
    """Whether the digits may decide what it is."""


_DULL = Shape(ordinary=True), Shape(ordinary=False)


class Messages:
    """All wordings: those of the checks, consequences, harmless ones."""

    def __init__(self, of_checks: Iterable[tuple[str, LogMessage]]) -> None:
        table = [KnownMessage("", item) for item in (*harmless(), *consequences())]
        table += [KnownMessage(code, item) for code, item in of_checks]
        # A consequence may be worded like its cause: the causes' own wordings come first, hints last.
        order = {Bearing.CAUSE: 0, Bearing.SYMPTOM: 1, Bearing.CONSEQUENCE: 2, Bearing.HINT: 3, Bearing.HARMLESS: 4}
        self.all = sorted(
            table,
            key=lambda item: (
                item.message.kind == PLAIN,
                item.message.general,
                _BEFORE_SYMPTOMS if item.message.kind == SERVICE else order[item.message.bearing],
            ),
        )
        """In the order in which they are tried."""
        self._by_triple: dict[bytes, list[tuple[bytes, list[tuple[bytes, bytes, int | str]]]]] = {}
        self._always: list[tuple[bytes, bytes, int | str]] = []
        self._hot: dict[bytes, tuple[tuple[bytes, bytes, int | str], ...]] = {}
        self._index()

    def _index(self) -> None:
        """Note the cues of all wordings by their longest word."""
        cues: list[tuple[str, int | str]] = [
            (cue, number) for number, item in enumerate(self.all) for cue in cues_of(item.message)
        ]
        for undone in {item.message.undone for item in self.all if item.message.undone}:
            cues += [(cue, f"~{undone}") for cue in cues_of_pattern(undone)[0]]
        cues += [(cue, f"={tag}") for tag, words in _CUES.items() for cue in words.split("|")]
        anchors: dict[bytes, list[tuple[bytes, bytes, int | str]]] = {}
        for cue, of in cues:
            without = cue.encode().translate(None, _VARYING)
            anchors.setdefault(max(without.split(), key=len, default=b""), []).append((without, cue.encode(), of))
        self._always = anchors.pop(b"", [])
        for anchor, items in anchors.items():
            self._by_triple.setdefault(anchor[:3], []).append((anchor, items))

    def _candidates(self, bare: bytes) -> set[tuple[bytes, int | str]]:
        """Whose cue a text in small letters holds, its digits apart: the cue, and the wording or what undoes one."""
        found: set[tuple[bytes, int | str]] = set()
        if len(self._hot) > _MOST_WORDS:
            self._hot.clear()
        for word in set(bare.split()):
            items = self._hot.get(word)
            if items is None:
                places = ((at, size) for at in range(len(word)) for size in (1, 2, 3) if at + size <= len(word))
                anchors = {
                    anchor: each
                    for at, size in places
                    for anchor, each in self._by_triple.get(word[at : at + size], ())
                    if word.startswith(anchor, at)
                }
                items = tuple(item for each in anchors.values() for item in each)
                if len(word) <= _LONGEST_WORD:
                    self._hot[word] = items
            found.update((cue, of) for without, cue, of in items if without in bare)
        found.update((cue, of) for without, cue, of in self._always if without in bare)
        return found

    def shape(self, raw: bytes, bare: bytes, known: dict[bytes, Shape]) -> Shape:
        """What a line has in common with those alike in its log (`known`); `bare` is the line without digits."""
        shape = known.get(bare)
        if shape is None:
            key = bare
            if _is_of_digits(bare):  # whether it is a step depends on how many there are
                key = _DIGIT.sub(b"0", raw)
                shape = known.get(key)
            elif len(raw) > 24 and (plain := _HASH.sub(b"0", raw)) is not raw:
                key = plain.translate(None, _VARYING)
                shape = known.get(key)
            shape = shape or self._judged(raw, bare)
            if len(known) > _MOST_SHAPES:
                known.clear()
            if len(key) <= _LONGEST_ALIKE:
                known[key] = shape
        return shape

    def _judged(self, raw: bytes, bare: bytes) -> Shape:
        candidates = self._candidates(bare.lower())
        of_digits = _is_of_digits(bare) or bare[:2] == b"OK"  # a step and its loss, unittest
        ordinary = _OF_A_PROGRAM.match(raw) is not None
        if not candidates and not of_digits:
            return _DULL[not ordinary]
        tags = {of[1:] for _, of in candidates if isinstance(of, str) and of[0] == "="}
        numbers = [self.all[of] for _, of in candidates if isinstance(of, int)]
        known = [item for item in numbers if item.message.everywhere and item.message.bearing is not Bearing.HARMLESS]
        whole = text = text_of(raw)
        if known or of_digits or not tags.isdisjoint(("step", "succeeded")):
            lines, record = Prefixes().lines(whole)
            text = record or lines[0].text
            texts = (whole, *(line.text.strip() for line in lines))
            known = [item for item in known if item.asks_for_digits or any(map(item.pattern.search, texts))]
        named = "named" in tags and (
            _NAMED.search(whole) is not None or (_DOTTED.search(whole) and _OF_FAILURES.search(whole)) is not None
        )
        says = {
            "step": (of_digits or "step" in tags) and step_of(text) is not None,
            "done": "done" in tags and says_done(whole),
            "served": "served" in tags and _SERVED.search(whole) is not None,
            "succeeded": (of_digits or "succeeded" in tags) and _SUCCEEDED.search(text) is not None,
            "goes_on": "goes_on" in tags and GOES_ON.search(text) is not None,
            "low": "low" in tags and (of_low_level(whole) or _LOW_OF_JSON.search(whole) is not None),
        }
        undone = tuple({of[1:] for _, of in candidates if isinstance(of, str) and of[0] == "~"})
        return Shape(
            ordinary=ordinary or has_result(text),
            reads=named or bool(known),
            tells=any(says.values()) or bool(undone),
            world="world" in tags and WORLD.search(whole) is not None,
            undone=undone,
            by_digits=named or any(item.asks_for_digits for item in known),
            **says,
        )

    def in_exception(self, text: str) -> Match | None:
        """The wording of an exception's type and message."""
        return self._first(text[:_LONGEST], lines=False)

    def in_line(self, text: str) -> Match | None:
        """The wording of a line that is no exception."""
        return self._first(text[:_LONGEST], lines=True)

    def _first(self, text: str, *, lines: bool) -> Match | None:
        small = text.lower().encode("utf-8", "replace")
        candidates = self._candidates(small.translate(None, _VARYING))
        for number in sorted({of for cue, of in candidates if isinstance(of, int) and cue in small}):
            item = self.all[number]
            if (item.message.everywhere or not lines) and (found := item.pattern.search(text)):
                around = item.message.outside or item.message.closing
                if around and not lines and "\n" in text[: found.start()]:
                    continue
                return Match(item, tuple((name, value.strip()) for name, value in found.groupdict().items() if value))
        return None


def _is_of_digits(bare: bytes) -> bool:
    return bare.strip(b" \t:,") == b""


_TABLES: dict[tuple[int, ...], Messages] = {}


def messages_table(of_checks: tuple[tuple[str, LogMessage], ...]) -> Messages:
    """The table of these wordings, made once: compiling their patterns takes longer than most logs."""
    key = tuple(id(item) for _, item in of_checks)  # to compare them by their texts takes as long as a small log
    return _TABLES.get(key) or _TABLES.setdefault(key, Messages(of_checks))


def bare(data: bytes) -> bytes:
    """Bytes without digits and signs."""
    return data.translate(None, _VARYING)


def skeleton(text: str) -> str:
    """The text with every number as 0: lines of a loop are the same then."""
    return _DIGITS.sub("0", text)
