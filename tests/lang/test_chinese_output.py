"""What a Chinese reader sees has no English sentence in it: of every command, in one process.

The rule: no four English words in a row, apart from code (in backticks or quotation marks), commands, paths,
identifiers, citations, and lines that quote the user's files, logs or exceptions.
"""

import re
from pathlib import Path

import pytest
from report_kinds import every_report, texts_of

from gpudoctor.cli import main
from gpudoctor.cli.parser import COMMANDS
from gpudoctor.engine.registry import load_registry
from gpudoctor.lang import speaking
from gpudoctor.lang.wrapping import cells, pieces, unfolded, wrap

CODE = re.compile(r"`[^`]*`|'[^'\n]*'|\"[^\"\n]*\"|\S*[\d_/\\=<>{}()\[\]@#$*:.,;+|-]\S*")
RUN = re.compile(r"(?:\b[A-Za-z]{2,}\b ){3,}[A-Za-z]{2,}\b")
COMMAND = re.compile(
    r"^\s*(?:\$ |用法：|来源：|zsh：|fix it|gpudoctor |pip |python |torchrun |sudo )|：(?:gpudoctor|torchrun|python) "
)
EXAMPLES = Path(__file__).parents[2] / "examples"


def english(text: str) -> list[str]:
    """The lines with four English words in a row."""
    return [line for line in text.splitlines() if not COMMAND.search(line) and RUN.search(CODE.sub("|", line))]


@pytest.fixture
def shown(capsys, monkeypatch, tmp_path):
    """What a command shows in Chinese, on both streams."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*words: str) -> str:
        main([*words, "--lang", "zh"])
        out, err = capsys.readouterr()
        return out + err

    return run


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_chinese(command, flag, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*filter(None, (command,)), flag, "--lang", "zh"])
    text = capsys.readouterr().out
    assert not english(text) and "用法：" in text and "选项" in text
    wide = [line for line in text.split("示例")[0].splitlines() if cells(line) > 80]
    assert not [line for line in wide if not re.search(r"[{$]|用法：", line)]
    assert not [line for line in text.splitlines() if line.strip().startswith(tuple("。，、；：）"))]


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("explain", "DATA001"),
        ("explain", "oom"),
        ("recordings",),
        ("init", "--print"),
        ("estimate", "--model", "7b"),
        ("estimate", "--model", "llama-3-8b", "--gpu", "24GiB", "--fit"),
        ("estimate", "--model", "7b", "--mode", "inference", "--gpu", "24GiB"),
        ("check", "nope.py"),
        ("chekc",),
        ("check", "--select", "XX1"),
        ("check", "--fail-on", "x"),
        ("check", "--bogus"),
        ("watch", "--interval", "x"),
        ("watch", "999999999"),
        ("autopsy", "nope.log"),
        ("estimate", "--model", "zzz"),
        ("verify",),
        ("run",),
    ],
    ids=" ".join,
)
def test_a_command_is_chinese(shown, words):
    text = shown(*words)
    assert text.strip() and not english(text), english(text)


TERMS = """
CPUs DataLoader DeepSpeed EleutherAI FLOPs GPUs GiB KiB LoRA Loss MiB NaN PEFT Python QLoRA
RuntimeError accelerate adamw batch checkpoint checkpoints epoch gpudoctor lora loss python rank
torch transformers
"""
"""Words that stay English in Chinese: docs/translating.md has the list; names of libraries and of classes."""


def words_of(text: str) -> list[str]:
    """The English words of a text, without code, identifiers, names of checks and terms."""
    for name in CHECKS:
        text = text.replace(name, "|")
    return [
        word
        for word in re.findall(r"[A-Za-z]{3,}", CODE.sub("|", text))
        if word not in TERMS.split() and not word.isupper()
    ]


CITATIONS = " ".join(" ".join((check.__doc__ or "").split()) for check in load_registry().checks.values())
"""Manual pages in English: a translated one cites the same sources."""
CHECKS = sorted((check.name for check in load_registry().checks.values()), key=len, reverse=True)


def test_no_text_of_a_page_or_a_picture_is_the_same_in_both_languages(tmp_path, capsys):
    texts: dict[str, dict[tuple[str, str], set[str]]] = {}
    for language in ("en", "zh"):
        folder = tmp_path / language
        folder.mkdir()

        def run(*words: str, language: str = language) -> str:
            main([*words, "--lang", language])
            return capsys.readouterr().out

        with speaking(language):
            pages = [*every_report(folder, run)]
        texts[language] = {(kind, form): set(texts_of(form, page)) for kind, form, page in pages}
    assert {key: found for key, found in texts["zh"].items() if len(found) <= 5} == {}
    same = [
        (kind, text, words_of(text))
        for kind, found in texts["zh"].items()
        for text in sorted(found & texts["en"][kind])
        if words_of(text) and text not in CITATIONS
    ]
    assert not same, "\n".join(map(str, same))
    mixed = [(kind, line) for kind, found in texts["zh"].items() for text in found for line in english(text)]
    assert not mixed, "\n".join(map(str, mixed))


@pytest.mark.parametrize(
    "words", [("estimate", "--model", "7b", "--gpu", "24GiB"), ("check", str(EXAMPLES / "train_crops.py"))]
)
def test_json_is_the_same_in_both_languages(words, capsys):
    assert_the_same([*words, "--format", "json"], capsys)


@pytest.mark.parametrize("form", ["sarif", "junit", "github"])
def test_what_programs_read_is_the_same_in_both_languages(form, capsys):
    assert_the_same(["check", str(EXAMPLES / "train_crops.py"), "--format", form], capsys)


def assert_the_same(words, capsys):
    texts = []
    for language in ("en", "zh"):
        main([*words, "--lang", language])
        out = re.sub(r'"(?:seconds|started|time|startTimeUtc|endTimeUtc)": [^\n]*', "", capsys.readouterr().out)
        texts.append(re.sub(r'(?:time|timestamp)="[^"]*"', "", out))
    assert texts[0] == texts[1] != ""


def test_lines_of_a_paragraph_are_joined_without_blanks_between_chinese_characters():
    assert unfolded(["小模型的一步", "会慢 2 到", "4 倍、", "GPU 更久。", "loss", "下降"]) == (
        "小模型的一步会慢 2 到 4 倍、GPU 更久。loss 下降"
    )
    assert unfolded(["one: two", "three"]) == "one: two three"


def test_lines_break_between_chinese_characters_only():
    text = "训练等待 data_loader.py:31 的数据（58 %），步时间是 1.2 s。数据 /数据/训练.py 不断开"
    assert "".join(pieces(text)) == text
    for width in range(14, 60):
        lines = wrap(text, width, hang=2)
        assert "".join("".join(lines).split()) == "".join(text.split())
        assert not [line for line in lines if line.lstrip().startswith(tuple("，。）、")) or line.endswith("（")]
        assert any("data_loader.py:31" in line for line in lines)
        assert any("/数据/训练.py" in line for line in lines)
        assert all(cells(line) <= width for line in lines if len(pieces(line.strip())) > 1)
