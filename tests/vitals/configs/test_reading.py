import time
from pathlib import Path

import pytest
from configs import config

from gpudoctor.model.signs.configs import Entry
from gpudoctor.vitals.configs import tree
from gpudoctor.vitals.configs.config_text import UnreadConfig
from gpudoctor.vitals.configs.reading import find_configs, parse, read_configs


def _places(text: str, entry: Entry) -> tuple[str, str]:
    """What stands at an entry's key and at its value."""
    lines = text.split("\n")
    key = lines[entry.line - 1][entry.column - 1 :]
    span = "\n".join(lines[entry.value_line - 1 : entry.end_line])
    last = len(lines[entry.end_line - 1]) - (entry.end_column - 1)
    return key, span[entry.value_column - 1 : len(span) - last]


YAML = """\
# 训练配置
training:
  lr: 1e-5   # 学习率
  gradient_checkpointing: yes
  名称: "引号 # 不是注释"
  fp16: {enabled: true, levels: [1, 2,
     3]}
data:
- path: a b c
  workers: 0 # 数据加载进程
"""

JSON = """{
  "训练": {"lr": 1e-5, "betas": [0.9,
     0.999]},
\t"flag": true, "empty": {}, "nothing": null,
  "nested": [{"a": "x\\n\\u4e2d"}]
}
"""


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (YAML, "a.yaml", {
            "training.lr": (3, 1e-5), "training.gradient_checkpointing": (4, True),
            "training.名称": (5, "引号 # 不是注释"), "training.fp16.enabled": (6, True),
            "training.fp16.levels": (6, (1, 2, 3)), "data[0].path": (9, "a b c"), "data[0].workers": (10, 0),
        }),
        (JSON, "a.json", {
            "训练.lr": (2, 1e-5), "训练.betas": (2, (0.9, 0.999)), "flag": (4, True), "nothing": (4, None),
            "nested[0].a": (5, "x\n中"),
        }),
        ('{"a": "\\ud83d\\ude00", "b": "\x7f", "c": -Infinity}', "b.json", {
            "a": (1, "😀"), "b": (1, "\x7f"), "c": (1, float("-inf")),
        }),
    ],
)  # fmt: skip
def test_keys_values_and_lines(text: str, path: str, expected: dict[str, tuple[int, object]]) -> None:
    file = parse(path, text)
    assert {key: (entry.line, entry.value) for key, entry in file.entries.items()} == expected
    for entry in file.entries.values():
        key, value = _places(text, entry)
        assert key.strip('"').startswith(entry.last)
        assert value == entry.text
        assert not value.endswith((" ", "#"))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", True), ("off", False), ("no", False), ("'no'", "no"), ("~", None), ("", None), ("5e-5", 5e-5),
        ("1.0e-4", 1e-4), (".5", 0.5), ("1_000", 1000), ("0x10", 16), ("010", 8), ("-1", -1), ("1.2.3", "1.2.3"),
        ("1:30", "1:30"), (".inf", float("inf")), ("bf16", "bf16"), ("null", None), ('"1"', "1"), ("!!str 1", "1"),
        ("!!float '3'", 3), ("2024-01-01", "2024-01-01"), ("-", (None,)), ("+", "+"), ("0", 0), ("1e5", 1e5),
        ("9" * 5000, "9" * 5000), ("!!python/object/apply:os.system [ls]", ("ls",)),
    ],
)  # fmt: skip
def test_yaml_scalars_are_read_as_the_training_tools_read_them(written: str, value: object) -> None:
    assert parse("a.yaml", f"key: {written}\n" if written != "-" else "key:\n  -\n").entries["key"].value == value


def test_duplicate_keys_are_reported_and_the_last_wins() -> None:
    for text, path in (("a:\n  b: 1\n  c: 2\n  b: 3\n", "x.yaml"), ('{"a": {"b": 1,\n"c": 2,\n\n"b": 3}}', "x.json")):
        file = parse(path, text)
        assert file.entries["a.b"].value == 3
        [duplicate] = file.duplicates
        assert (duplicate.key, duplicate.line) == ("a.b", 4)
        assert duplicate.first_line in {1, 2}


def test_an_anchor_bomb_ends_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MAX_ENTRIES", 5_000)
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30))
    start = time.process_time()
    file = parse("bomb.yaml", "a0: &a0 {x: [lol]}\n" + levels)
    assert time.process_time() - start < 5
    assert any("larger or deeper" in note for note in file.notes)


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("a: [1, 2\nb: 3\n", "a.yaml", ("line 2", "not valid YAML")),
        ("a: *nowhere\n", "a.yaml", ("line 1", "no anchor")),
        ('{"a": 1,\n "b" 2}', "a.json", ("line 2, column 6", "':'")),
        ("", "a.json", ("empty",)),
        ("a = \n", "a.toml", ("not valid TOML", "line 1")),
    ],
)
def test_a_broken_file_is_a_sentence_with_its_line(text: str, path: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UnreadConfig) as caught:
        parse(path, text)
    for word in words:
        assert word in str(caught.value)


def test_interpolation_is_left_alone_with_a_note() -> None:
    file = config(
        """
        trainer:
          max_epochs: ${epochs}
          log_every_n_steps: 1
          precision: "{{ 'bf16' if x else '16' }}"
        """
    )
    assert file.entries["trainer.max_epochs"].interpolated
    assert file.entries["trainer.precision"].value == "{{ 'bf16' if x else '16' }}"
    assert any("filled in by Hydra" in note for note in file.notes)
    assert not file.meaning("epochs")
    assert not file.meaning("processes")


def test_files_that_are_no_configs_are_a_sentence(tmp_path: Path) -> None:
    bad = {
        "binary.yaml": (b"a: 1\n\0\1\2", "binary"),
        "gbk.yaml": ("a: 1\n# 训练配置文件\n".encode("gb18030"), "line 2: not UTF-8"),
        "latin.yaml": (b"a: 1\nb: \xe9t\xe9\n", "line 2"),
        "big.json": (b'{"a": "' + b"x" * (5 << 20) + b'"}', "5 MB"),
        "half.yaml": (b"\xff\xfea", "line 1"),
    }
    for name, (raw, _) in bad.items():
        (tmp_path / name).write_bytes(raw)
    paths = [tmp_path / name for name in bad]
    configs = read_configs([*paths, tmp_path, tmp_path / "missing.yaml"])
    assert not configs.files
    sentences = dict(configs.unread)
    for name, (_, word) in bad.items():
        assert word in sentences[str(tmp_path / name)]
    assert "missing.yaml: cannot be read: No such file" in sentences[str(tmp_path / "missing.yaml")]
    assert len(configs.unread) == 7


def test_find_configs_walks_past_what_is_none(tmp_path: Path) -> None:
    hf = "per_device_train_batch_size: 1\nnum_train_epochs: 1\nlogging_steps: 1\n"
    for name in ("train.yaml", "sub/b.yml", "wandb/run/config.yaml", ".hidden/c.yaml", "v/e.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(hf)
    (tmp_path / "v/pyvenv.cfg").write_text("")
    (tmp_path / "package.json").write_text('{"name": "x", "scripts": {"train": "x"}, "dependencies": {"lora": "1"}}')
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "train.json").write_text('[{"text": "lora learning_rate trainer"}]')
    found = [path.relative_to(tmp_path).as_posix() for path in find_configs(tmp_path)]
    assert found == ["train.yaml", "sub/b.yml"]
    assert find_configs(tmp_path / "missing") == []


def test_a_folder_that_hydra_composes_is_left_out_and_a_named_file_says_why(tmp_path: Path) -> None:
    (tmp_path / "settings" / "data").mkdir(parents=True)
    (tmp_path / "settings" / "main.yaml").write_text("# all\ndefaults:   # groups\n\n  - data: web\n  - _self_\n")
    (tmp_path / "settings" / "data" / "web.yaml").write_text("batch_size: 4\nnum_workers: 0\nlr: 1\n")
    (tmp_path / "own.yaml").write_text("batch_size: 4\nnum_workers: 0\nlr: 1\n")
    assert find_configs(tmp_path) == [tmp_path / "own.yaml"]
    [file] = read_configs([tmp_path / "settings" / "main.yaml"]).files
    assert not file.kind.trains and "Hydra" in file.notes[0]


def test_a_command_line_takes_the_place_of_what_a_file_says() -> None:
    words = ("--learning_rate", "3e-4", "--bf16", "--seed=7", "--other", "x")
    text = "output_dir: o\nlearning_rate: 1.0\nbf16: false\nseed: 1\nnum_train_epochs: 1\nsave_steps: 5\n"
    file = parse("a.yaml", text, words)
    assert [file.value(key) for key in ("learning_rate", "bf16", "seed", "other")] == [3e-4, True, 7, None]
    assert file.notes == ("the command line sets learning_rate, bf16, seed",)
    assert parse("ds.json", '{"zero_optimization": {"stage": 2}, "seed": 1}', words).value("seed") == 1
