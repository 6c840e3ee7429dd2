"""Catalogues and pages: complete where they are said to be, and no translation changes a field, a number or code."""

import re
from collections import Counter
from pathlib import Path

import pytest

from gpudoctor.engine.manual import parse_manual
from gpudoctor.engine.registry import load_registry
from gpudoctor.lang.__main__ import entries, packages, untranslated, wanted
from gpudoctor.lang.extract import faults

LANGUAGE = "zh"


def test_no_translation_changes_a_field_a_number_or_code():
    wrong = [f"{entry.source!r}: {faults(entry.source, entry.translation)}"
             for _, entry in entries(LANGUAGE) if entry.translation and faults(entry.source, entry.translation)]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def test_every_entry_is_of_a_template_in_the_source():
    stale = [f"{path.name}: {entry.source!r}" for path, entry in entries(LANGUAGE) if entry.source not in wanted()]
    assert not stale, "python -m gpudoctor.lang merge (no file) drops them:\n" + "\n".join(stale)


def test_complete_topics_stay_complete():
    missing = [f"{found.place}: {found.template!r}" for found in untranslated(LANGUAGE)]
    assert not missing, "python -m gpudoctor.lang missing TOPIC -o FILE writes them:\n" + "\n".join(missing)


AVOIDED = {
    "损失": "loss (of time or speed: 代价, 下降)",
    "检查点": "checkpoint (activation checkpointing: 激活重计算)",
    "微批": "micro batch",
    "批次": "batch",
    "GPU 内存": "显存",
    "设备内存": "显存",
    "显卡": "卡",
    "诊断项": "问题",
    "通信组": "进程组",
}
"""Words that the glossary in docs/translating.md replaces, and by what."""
MEMORIES = (
    (re.compile(r"\b(?:GPU|device|card's|GPU's) memory\b", re.I), "显存"),
    (re.compile(r"\bhost(?:'s)? memory\b", re.I), "内存"),
    (re.compile(r"\bmemory snapshot", re.I), "显存快照"),
    (re.compile(r"\bjobs?\b(?!.*\btasks?\b)", re.I), r"^(?!.*任务)"),
)
"""What is in an English text, and what its translation then has."""


def test_translations_use_the_words_of_the_glossary():
    texts = [(path.name, entry.source, entry.translation) for path, entry in entries(LANGUAGE)]
    texts += [(path.name, "", path.read_text(encoding="utf-8")) for path in PAGES]
    wrong = [
        f"{name}: {source or text[:40]!r}: {word}, better {better}"
        for name, source, text in texts
        for word, better in AVOIDED.items()
        if word in text
    ]
    wrong += [
        f"{name}: {source!r}: {translation!r} lacks {word}"
        for name, source, translation in texts
        for pattern, word in MEMORIES
        if pattern.search(source) and not re.search(word, translation, re.S)
    ]
    assert not wrong, "\n".join(wrong)


PAGES = sorted(path for package in packages() for path in (package / "lang" / LANGUAGE / "pages").glob("*.txt"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_the_sections_numbers_and_addresses_of_the_english_one(path: Path):
    check = load_registry().checks[path.stem]
    ours, theirs = parse_manual(check.__doc__ or ""), parse_manual(path.read_text(encoding="utf-8"))
    assert [item.heading for item in theirs.sections] == [item.heading for item in ours.sections]
    assert theirs.section("References") == ours.section("References")
    for mine, its in zip(ours.sections, theirs.sections, strict=True):
        for pattern in (r"\d+(?:[.,]\d+)*", r"`[^`]+`"):
            assert Counter(re.findall(pattern, its.text)) == Counter(re.findall(pattern, mine.text)), mine.heading
