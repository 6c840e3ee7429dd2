"""Messages: the English text, its template and parts, and how it is said in another language."""

import copy
import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpudoctor.lang import Message, catalogue, language_for, rendered, say, speaking
from gpudoctor.lang import __main__ as tool
from gpudoctor.lang.extract import faults
from gpudoctor.report.strings import for_reader, presentable
from gpudoctor.text import count

CATALOGUE = {
    "{loader} waits {share} of the time{more}.": "{loader} 有 {share} 的时间在等待{more}。",
    "; {workers} are busy": "；{workers}繁忙",
    "{number:,} workers": "{number:,} 个 worker",
    "{items} and {last}": "{items}和 {last}",
    "the training process": "训练进程",
}


@pytest.fixture
def chinese(monkeypatch):
    monkeypatch.setattr(catalogue, "translation", lambda template, language: CATALOGUE.get(template))
    with speaking("zh"):
        yield


def waits(share: str = "58 %") -> str:
    return say(
        "{loader} waits {share} of the time{more}.",
        loader="the training process",
        share=share,
        more=say("; {workers} are busy", workers=count(4, "worker")),
    )


def test_a_message_is_its_english_text():
    assert waits() == "the training process waits 58 % of the time; 4 workers are busy."
    assert rendered(waits()) == waits()


def test_a_message_survives_copies_pickles_and_json():
    for made in (copy.deepcopy(waits()), pickle.loads(pickle.dumps(waits()))):
        assert isinstance(made, Message) and made == waits() and made.parts["share"] == "58 %"
    assert json.loads(json.dumps(waits())) == waits()


@pytest.mark.parametrize(
    ("translation", "fault"),
    [
        ("{share:.1f} 的 {total} 时间 8", "fields"),
        ("{share:.0%} 的 {total} 时间", "numbers"),
        ("{share:.0%} 的 {total} 时间, 8", "punctuation"),
        ("{share:.0%} 的 {total} 时间8", "blank"),
    ],
)
def test_a_translation_that_changes_something_is_refused(translation, fault):
    assert any(fault in words for words in faults("{share:.0%} of {total} time 8", translation))
    assert faults("{share:.0%} of {total} time 8", "{total} 时间的 {share:.0%}，8") == []


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with an empty catalogue and three texts, one of them with all that must be escaped."""
    folder = tmp_path / "plugin"
    (folder / "lang/zh/LC_MESSAGES").mkdir(parents=True)
    (folder / "lang/zh/LC_MESSAGES/plugin.po").touch()
    (folder / "data.py").write_text(
        "say('a \"quoted\" \\\\ text\\nof {x:.0%} each', x=1)\nsay('long ' * 2)\nsay('one more')\n"
    )
    monkeypatch.setattr(tool, "packages", lambda: [str(folder)])
    monkeypatch.setattr(catalogue, "packages", lambda: [str(folder)])
    yield folder
    catalogue._catalogue.cache_clear()


QUOTED = 'a "quoted" \\ text\nof {x:.0%} each'
GIVEN = r"""
msgid "a \"quoted\" \\ text\nof {x:.0%} each"
msgstr "一 “二” \\\n{x:.0%}"

msgid "one more"
msgstr "再来一个"

msgid "nowhere"
msgstr "无"
"""


def filled(package: Path) -> Path:
    """The catalogue of the package, with the translations that are given."""
    (package / "given.po").write_text(GIVEN, encoding="utf-8")
    tool.main([str(package / "given.po")])
    return Path(catalogue.po_path(str(package), "zh"))


def test_translations_are_taken_over_written_and_compiled(package, tmp_path, capsys):
    (tmp_path / "given.po").write_text(GIVEN.replace("一个", " {x} 个"), encoding="utf-8")
    assert tool.main(["-o", str(tmp_path / "left.po"), str(tmp_path / "given.po")]) == 1
    said = capsys.readouterr().out
    assert "refused: 'one more'" in said and "refused: 'nowhere'" in said and "1 texts are not translated" in said
    left = (tmp_path / "left.po").read_text(encoding="utf-8")
    assert "#: data.py:3\n" in left and 'msgid "one more"' in left and "quoted" not in left
    assert catalogue.translation(QUOTED, "zh") == "一 “二” \\\n{x:.0%}"
    assert catalogue.translation("one more", "zh") is None


def test_a_text_that_the_source_lacks_is_named_and_dropped(package, capsys):
    filled(package)
    (package / "data.py").write_text("say('one more')\n")
    capsys.readouterr()
    assert tool.main(["--check"]) == 1 and 'stale: \'a "quoted"' in capsys.readouterr().out
    assert tool.main([]) == 0 and "quoted" not in (package / "lang/zh/LC_MESSAGES/plugin.po").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(("there", "translation"), [(True, "再来一个"), (False, None)])
def test_an_installed_package_needs_no_babel_and_one_without_catalogue_is_english(
    package, there, translation, monkeypatch
):
    po = filled(package)
    (po if there else po.with_suffix(".mo")).unlink()
    assert not there or (tool.main([]) == 0 and not po.exists())
    monkeypatch.setitem(sys.modules, "babel.messages.pofile", None)
    assert catalogue.translation("one more", "zh") == translation


def test_a_catalogue_that_is_older_than_its_source_is_compiled_again(package):
    po = filled(package)
    assert catalogue.translation("one more", "zh") == "再来一个"
    written = po.with_suffix(".mo").read_bytes()
    po.write_text(po.read_text(encoding="utf-8").replace("再来一个", "又一个"), encoding="utf-8")
    os.utime(po, (time.time() + 9, time.time() + 9))
    catalogue._catalogue.cache_clear()
    assert catalogue.translation("one more", "zh") == "又一个" and po.with_suffix(".mo").read_bytes() != written


@pytest.mark.parametrize(
    ("flag", "environment", "language"),
    [
        (None, {}, "en"),
        (None, {"LANG": "zh_CN.UTF-8"}, "zh"),
        (None, {"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        (None, {"LC_ALL": "de_DE.UTF-8"}, "en"),
        (None, {"LANG": "C", "GPUDOCTOR_LANG": "zh"}, "zh"),
        ("en", {"GPUDOCTOR_LANG": "zh"}, "en"),
    ],
)
def test_the_flag_then_the_variable_then_the_locale_decide(flag, environment, language):
    assert language_for(flag, environment) == language


def test_secrets_are_masked_in_the_parts_that_a_translation_uses(chinese):
    from sample_reports import full_report

    report = full_report()
    first = report.findings[0]
    message = waits("password=hunter2secret")
    report = replace(report, findings=(replace(first, finding=replace(first.finding, message=message)),))
    assert "hunter2" not in str(presentable(report).findings[0].finding.message.parts)
    shown = for_reader(report).findings[0].finding.message
    assert "等待" in shown and "hunter2" not in shown


def test_an_english_reader_loads_no_catalogue():
    code = "import sys, gpudoctor.cli; from gpudoctor.lang import say, rendered; rendered(say('{a}', a=1)); print([n for n in sys.modules if n in ('gpudoctor.lang.catalogue', 'babel', 'importlib.metadata')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
