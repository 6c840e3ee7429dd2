"""Catalogues and pages: complete, as the source is, and no translation changes a field, a number or code."""

import re
from collections import Counter
from pathlib import Path

import pytest

from gpudoctor.engine.manual import parse_manual
from gpudoctor.engine.registry import load_registry
from gpudoctor.lang.__main__ import _write, faulty, translations, untranslated, updated
from gpudoctor.lang.catalogue import packages, po_path

LANGUAGE = "zh"


@pytest.fixture(scope="module")
def catalogues():
    """The catalogues by file name, up to date with the source."""
    return {Path(path).name: catalog for path, catalog in updated(LANGUAGE, {}).items()}


def test_every_text_is_translated_and_no_entry_is_faulty_or_stale(catalogues):
    assert len(catalogues) == 3
    lines = [line for catalog in catalogues.values() for line in faulty(translations(catalog)).values()]
    for catalog in catalogues.values():
        lines += [f"stale: {text!r}" for text in catalog.obsolete]
        left = [each for each in untranslated(catalog) if not each.fuzzy]
        lines += [f"not translated: {each.locations[0]}: {each.id!r}" for each in left]
    assert not lines, "`make messages` drops stale entries and adds new ones:\n" + "\n".join(lines)


def test_catalogues_are_as_make_messages_writes_them(tmp_path, catalogues):
    """Sorted, without places, two lines an entry: what two people add can be merged."""
    for package in packages():
        there = Path(po_path(package, LANGUAGE))
        _write(str(tmp_path / there.name), catalogues[there.name], LANGUAGE)
        assert there.read_bytes() == (tmp_path / there.name).read_bytes(), "make messages"


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
    (re.compile(r"\bjobs?\b(?!.*\btasks?\b)", re.I), r"^(?!.*任务)"),
)
"""What is in an English text, and what its translation then has."""


def test_translations_use_the_words_of_the_glossary(catalogues):
    texts = [(name, *item) for name, catalog in catalogues.items() for item in translations(catalog).items()]
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


PAGES = sorted(path for package in packages() for path in Path(package, "lang", LANGUAGE, "pages").glob("*.txt"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_the_sections_numbers_and_addresses_of_the_english_one(path: Path):
    check = load_registry().checks[path.stem]
    ours, theirs = parse_manual(check.__doc__ or ""), parse_manual(path.read_text(encoding="utf-8"))
    assert list(theirs.sections) == list(ours.sections)
    assert theirs.sections["References"] == ours.sections["References"]
    for heading, mine in ours.sections.items():
        for pattern in (r"\d+(?:[.,]\d+)*", r"`[^`]+`"):
            assert Counter(re.findall(pattern, theirs.sections[heading])) == Counter(re.findall(pattern, mine)), heading
