"""The words of what a user reads: short sentences, fixes that begin with a verb, no private vocabulary.

The texts are the real ones: manual pages and thresholds of the registry, strings of checks and rules (a value in
braces counts as one word, as does code in backticks), and the help of each command.
"""

import argparse
import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor.cli.parser import COMMANDS, build_parser
from gpudoctor.engine.registry import load_registry
from gpudoctor_rules.advice import advice

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = load_registry()
CODES = sorted(code for code, check in REGISTRY.checks.items() if check.__module__.startswith("gpudoctor_checks."))
CHECKS = sorted((ROOT / "checks" / "gpudoctor_checks").rglob("*.py"))
RULES = sorted(path for kind in ("*.py", "*.toml") for path in (ROOT / "rules" / "gpudoctor_rules").rglob(kind))

LONGEST = 20
"""Words of a sentence."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n\s*- |\s+#\s+|:\n")
_ABBREVIATED = re.compile(r"\b(e\.g|i\.e|etc|vs)\.")
_PRIVATE = {
    "say who told it, or name the reading": r"\b(?:was|were|are|is) told\b",
    "say has, contains or uses": r"\bholds? (?:the|a|an|no|more|only)\b",
    "say is": r"\bstands? (?:at|in|on|still|elsewhere)\b",
    "say is not": r"\b(?:is|are) no (?!longer\b|more\b)",
    "name the person, or use the passive": r"\b(?:some|no)body\b",
}
"""What to say instead, and the words."""


def sentences(text: str) -> list[str]:
    """The sentences of a text; list items, headings and comments of code end one."""
    return [part for part in _SENTENCE.split(_ABBREVIATED.sub(r"\1", text)) if part and part.strip()]


def words(sentence: str) -> int:
    """The number of words; a piece of code is one."""
    plain = re.sub(r"`[^`]*`|\{[^}]*\}", "code", sentence)
    return sum(bool(re.search(r"[A-Za-z0-9]", word)) for word in plain.split())


def manual(code: str) -> str:
    """The manual page without its references."""
    page = inspect.getdoc(REGISTRY.checks[code]) or ""
    return page.partition("References:")[0]


def test_manual_pages_have_short_sentences():
    long = []
    for code in CODES:
        read = [manual(code), *(threshold.meaning for threshold in REGISTRY.checks[code].thresholds)]
        long += [(code, part) for text in read for part in sentences(text) if words(part) > LONGEST]
    assert not long


def test_manual_pages_have_no_private_words():
    pages = [(code, manual(code)) for code in CODES]
    found = [
        (code, advice, match[0]) for code, page in pages for advice, pattern in _PRIVATE.items()
        if (match := re.search(pattern, page)) is not None
    ]  # fmt: skip
    assert not found


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module with their lines: values in braces, docstrings and patterns of logs left out."""
    if path.suffix == ".toml":
        rows = enumerate(advice(path.stem))
        yield from ((number, text) for number, row in rows for text in (row.remedy.title, *row.remedy.steps))
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
        elif isinstance(node, ast.keyword) and node.arg in ("pattern", "source", "cue"):
            inner |= {id(part) for part in ast.walk(node.value)}
        elif isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in ast.walk(node)} - {id(node)}
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{value}" for part in node.values]
            yield node.lineno, "".join(map(str, parts))


def is_prose(text: str) -> bool:
    """Whether a string is a text for people: several words, none of the signs of a regular expression."""
    return len(re.findall(r"\b[a-z]{2,}\b", text)) >= 4 and not re.search(r"\\[bdsw]|\(\?|\.\*|\]\*", text)


def test_messages_and_remedies_have_short_sentences():
    read = [(f"{path.name}:{line}", text) for path in (*CHECKS, *RULES) for line, text in texts(path) if is_prose(text)]
    assert len(read) > 1000
    assert not [(place, part) for place, text in read for part in sentences(text) if words(part) > LONGEST]


_VERBS = """
    accept activate add align allow apply ask avoid balance build bump cache call cap change check choose clear clip close
    collect compare compile compute contact copy correct count create cut decode delete disable divide do download
    drain drop enable encode end evaluate exclude expand export extend fetch file find fit fix follow free freeze
    gather get give grow hide import increase initialise install iterate keep launch leave let limit list load log
    lower make map mark match measure merge mine mount move name open order pad pass pin plan point prepare
    preprocess prevent print profile put quantise raise read reboot rebuild record recover reduce register remove
    rename repair repeat replace replay report request reseat reset restart resume retry return reuse run sample
    save scale see select send set shard share shorten shuffle size skip sort split start stop store swap switch
    synchronise take test time train try tune turn unfreeze unset update upgrade use verify wait warm watch wrap
    write zero average draw fill name normalise pack pick show sum tie track unpack seed hand tokenise
    accumulate pair tell bring resubmit look search mask permute shift subtract
"""
VERBS = frozenset(_VERBS.split())
"""How a fix begins, if it is not code to paste."""


def titles(path: Path) -> Iterator[tuple[int, str]]:
    """The titles of the remedies that a module of rules, or a file of advice, spells out."""
    if path.suffix == ".toml":
        yield from ((number, row.remedy.title) for number, row in enumerate(advice(path.stem)))
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        given = [item.value for item in node.keywords if item.arg == "title"]
        if ast.unparse(node.func) in {"advise", "remedy"}:
            given += node.args[1:2]
        for title in given:
            for part in [title.body, title.orelse] if isinstance(title, ast.IfExp) else [title]:
                if isinstance(part, ast.Constant):
                    yield title.lineno, part.value
                elif isinstance(part, ast.JoinedStr):
                    pieces = [item.value if isinstance(item, ast.Constant) else "{value}" for item in part.values]
                    yield title.lineno, "".join(map(str, pieces))


def is_code(title: str) -> bool:
    """Whether a title is a setting, a call or a command to paste."""
    return bool(re.match(r"[\w.{}-]*[=:(]|[\w{}]+\.\w+|\{|#|--|[A-Z_]+=|ulimit|docker", title))


def test_a_fix_begins_with_a_verb_or_is_code():
    read = [(f"{path.name}:{line}", title) for path in RULES for line, title in titles(path)]
    assert len(read) > 300
    assert not [each for each in read if not is_code(each[1]) and re.split(r"\W", each[1].lower())[0] not in VERBS]


def flags(name: str) -> Iterator[tuple[str, str]]:
    """The flags of a command with their help."""
    commands = next(
        action for action in build_parser(only=name)._actions if isinstance(action, argparse._SubParsersAction)
    )
    for action in commands.choices[name]._actions:
        if action.help and action.help != argparse.SUPPRESS:
            yield "/".join(action.option_strings) or action.dest, action.help


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_flag_is_short_and_plain(name):
    wrong = [
        (flag, text) for flag, text in flags(name)
        if max(map(words, sentences(text))) > LONGEST or any(re.search(item, text) for item in _PRIVATE.values())
    ]  # fmt: skip
    assert not wrong


PAGES = (
    "README.md",
    "checks/README.md",
    "rules/README.md",
    "docs/autopsy.md",
    "docs/preflight.md",
    "docs/design.md",
    "docs/estimate.md",
    "docs/gpu-testing.md",
    "docs/recording.md",
    "docs/reliability.md",
    "docs/replay.md",
    "docs/synthetic.md",
    "docs/verdicts.md",
    "docs/verify.md",
    "docs/watch.md",
    "docs/what-run-changes.md",
)
"""The pages that people read from top to bottom; programs in `benchmarks` write some of them."""


def paragraphs(page: str) -> Iterator[str]:
    """The paragraphs and list items of a page: headings, tables and code left out."""
    page = re.sub(r"^(```|~~~).*?^\1", "", page, flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\s*\n", page):
        lines = [line for line in block.splitlines() if not line.startswith(("|", "#", "    ", "<!--"))]
        yield from re.split(r"^\s*(?:[-*]|\d+\.) ", "\n".join(lines), flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_short_sentences(page):
    prose = paragraphs((ROOT / page).read_text(encoding="utf-8"))
    linked = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text) for text in prose]
    long = [part for text in linked for part in sentences(text) if words(part) > LONGEST]
    assert not long
