"""Whatever a file holds: a config or a sentence, never an exception."""

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudoctor.vitals.configs import UnreadConfig, looks_like_config, looks_like_kubernetes_job, parse, read_configs

NAMES = st.sampled_from(
    ["logging_steps", "training", "lr", "fp16", "enabled", "trainer", "_component_", "base_model", "stage", "<<", "${x}",
     "zero_optimization", "apiVersion", "kind", "训练", "eval_strategy", "profiler", "flops_profile_freq", "", "a.b", "[0]"]
)  # fmt: skip
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(["auto", "bf16"])
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=8), inner, max_size=6)
)
PIECES = st.lists(
    st.sampled_from(
        ["a", "lr", ": ", ":", "\n", "  ", "\t", "- ", "{", "}", "[", "]", ",", '"', "'", "#", "&x ", "*x", "<<: ", "|\n",
         "{{ x }}", "{% y %}", "${z}", "1e-5", "yes", "---\n", "!!int ", "=", '"""', "\\", "//", "/*", "*/", "训", "\r", "\x85",
         "? ", "%YAML 9\n", "@", "`", "\ue000", "[[", "]]", "\u2028"]
    ),
    max_size=40,
).map("".join)  # fmt: skip
PATHS = st.sampled_from(["a.yaml", "a.json", "a.toml", "a"])
MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _read(path: str, text: str) -> None:
    try:
        file = parse(path, text)
    except UnreadConfig as error:
        assert str(error)
        return
    lines = text.split("\n")
    for entry in file.entries.values():
        assert 1 <= entry.line <= len(lines) + 1
        assert file.setting(entry).path == path
        assert str(entry.last) == entry.parts[-1]
    for name in file.said:
        for meaning in file.meaning(name):
            assert meaning.setting.line == meaning.entry.line


@MANY
@given(path=PATHS, text=PIECES)
def test_pieces_of_syntax(path: str, text: str) -> None:
    _read(path, text)


@MANY
@given(value=VALUES, path=st.sampled_from(["a.json", "a.yaml"]))
def test_any_tree(value: Any, path: str) -> None:
    _read(path, json.dumps(value, ensure_ascii=False))


@MANY
@given(raw=st.binary(max_size=300), suffix=st.sampled_from([".yaml", ".json", ".toml", ""]))
def test_any_bytes(tmp_path: Path, raw: bytes, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(raw)
    configs = read_configs([path])
    assert len(configs.files) + len(configs.unread) == 1
    looks_like_config(path)
    looks_like_kubernetes_job(path)
