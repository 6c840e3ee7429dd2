"""Search of the manual by words, symptoms and messages: ranked, without a network and without an index on disk.

    for hit in search(registry, "CUDA out of memory"): print(hit.check.code)

Each check is one document. Its name and title count more than its sections. A query that a check's own wording
of a log message matches is that check's, whatever words they share.
"""

import inspect
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import chain

from gpudoctor.engine.manual import topic_words
from gpudoctor.engine.registry import Registry
from gpudoctor.model import Check, Reads
from gpudoctor.model.log_message import PLAIN
from gpudoctor.model.message_cues import cues_of
from gpudoctor.model.records import frozen

_WORD = re.compile(r"[a-z0-9]+")
_NOISE = """
a an and are as at be but by can did do does for from has have how i if in is it its my no not of on or so that the
this to was what when where which while who why will with you your error runtimeerror valueerror
"""
_STOP = frozenset(_NOISE.split())
_NAME, _TITLE, _FINDS, _TOPIC, _REST = 8.0, 4.0, 2.0, 2.0, 0.6
"""What a word counts, by where it is."""
_MESSAGE, _GENERAL = 1000.0, 100.0
"""What a wording of a log message counts that matches the query; a general one covers what others name."""
_CUED = 3.0
"""What the beginning of such a wording counts: `CUDA out of memory` alone."""
_NAMED, _ASIDE = 1.5, 0.7
"""What a score counts more where the name or title has a word as it was typed, and less where no job is examined."""
_LEAST = 0.25
"""Share of the best score below which a hit is noise."""
_MOST = 12
_SATURATED = 1.5
"""Of the formula of BM25: the second mention of a word counts less than the first."""


@frozen
class Hit:
    """A check that a query may mean."""

    check: type[Check]
    score: float
    message: bool
    """Whether a wording of its log messages matches the query."""


def search(registry: Registry, query: str) -> list[Hit]:
    """The checks that a query means, the most likely first; empty where no word of it is known."""
    terms = _terms(query)
    beginnings = "|".join(dict.fromkeys(map(re.escape, chain(*terms)))) or "(?!)"
    asked = re.compile(rf"(?<![a-z0-9])(?:{beginnings})[a-z0-9]*")
    typed = {*_WORD.findall(query.lower())} - _STOP
    documents = {code: _weights(check, asked) for code, check in registry.checks.items()}
    spread = Counter(word for weights in documents.values() for word in weights)
    hits: list[Hit] = []
    for code, check in registry.checks.items():
        said = _said(check, query)
        weights = documents[code]
        found = sum(
            max((_score(weights.get(word, 0.0), spread[word], len(documents)) for word in choice), default=0.0)
            for choice in terms
        )
        covered = sum(any(word in weights for word in choice) for choice in terms)
        if said or covered:
            whole = covered / len(terms) if terms else 1.0
            title = inspect.cleandoc(check.__doc__ or "").partition("\n")[0]
            named = 1.0 if typed.isdisjoint(_WORD.findall(f"{check.name} {title}".lower())) else _NAMED
            aimed = _ASIDE if check.reads == {Reads.PREFLIGHT} else 1.0
            score = said + found * whole * whole * named * aimed
            hits.append(Hit(check=check, score=score, message=said >= _MESSAGE))
    hits.sort(key=lambda hit: (-hit.score, hit.check.code))
    best = hits[0].score if hits else 0.0
    return [hit for hit in hits if hit.score >= _LEAST * best][:_MOST]


def topic_of_word(registry: Registry, word: str) -> list[type[Check]]:
    """The checks of a topic by its letters (`data`, `MEM`); empty for a word that is none."""
    wanted = word.strip().upper()
    return [check for code, check in registry.checks.items() if re.sub(r"\d+", "", code) == wanted]


def _said(check: type[Check], query: str) -> float:
    """Whether a wording of the check's log messages is in the query."""
    lowered = query.lower()
    best = 0.0
    for message in (*check.all_log_messages(), *check.library_warnings):
        if message.kind == PLAIN:
            continue  # any exception at all
        said = [cue for cue in cues_of(message) if cue in lowered]
        if said and re.search(message.pattern, query):
            best = max(best, _GENERAL if message.general else _MESSAGE)
        elif any(" " in cue for cue in said):
            best = max(best, _CUED)
    return best


def _score(weight: float, documents: int, total: int) -> float:
    """BM25 without a document's length: manual pages are about equally long."""
    if not weight:
        return 0.0
    rarity = math.log(1 + (total - documents + 0.5) / (documents + 0.5))
    return rarity * weight * (1 + _SATURATED) / (weight + _SATURATED)


def _terms(query: str) -> list[tuple[str, ...]]:
    """For each word of the query the words that may stand for it."""
    found = _WORD.findall(query.lower())
    words = [word for word in found if len(word) > 1 and word not in _STOP and not word.isdigit()]
    terms: list[tuple[str, ...]] = []
    # What people type, and the words of the manual for it.
    table = json.loads(files(__package__).joinpath("alike.json").read_text(encoding="utf-8"))
    for word in dict.fromkeys(words):
        root = _root(word)
        alike = table.get(word) or table.get(root)
        if alike and word == "oom":
            terms += [(_root(other),) for other in alike]
        else:
            terms.append(tuple(dict.fromkeys((root, *map(_root, alike or ())))))
    return terms


def _weights(check: type[Check], asked: re.Pattern[str]) -> dict[str, float]:
    """Roots of those words of a check that begin as asked for, with what they count."""
    weights: defaultdict[str, float] = defaultdict(float)
    title, _, rest = inspect.cleandoc(check.__doc__ or "").partition("\n")
    finds, _, others = rest.partition("Why it hurts:")
    others, _, _ = others.partition("References:")
    parts: Sequence[tuple[str, float]] = (
        (check.name, _NAME),
        (title, _TITLE),
        (topic_words(check.code), _TOPIC),
        (finds, _FINDS),
        (others, _REST),
        (" ".join(message.text for message in check.all_log_messages()), _REST),
    )
    for text, weight in parts:
        for root in {_root(word) for word in asked.findall(text.lower()) if word not in _STOP}:
            weights[root] += weight
    return dict(weights)


@cache
def _root(word: str) -> str:
    """A word without its ending, as far as a search needs it: `loaders`, `loading` and `loaded` are `load`."""
    for ending in ("ings", "ing", "ers", "er", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    return word.removesuffix("e") if len(word) > 4 else word
