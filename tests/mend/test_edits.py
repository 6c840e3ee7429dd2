"""Edits of calls, imports and text: formatting and comments stay, the rest is refused with a clause."""

import pytest

from gpudoctor.mend.file_text import CannotMend, read_file, splice
from gpudoctor.mend.python_edits import PythonFile
from gpudoctor.model import ImportEdit, KeywordEdit


def keywords(text: str, set=(), remove=(), line=1, column=1) -> str:
    edit = KeywordEdit(path="x.py", line=line, column=column, set=tuple(set), remove=tuple(remove))
    return splice(text, [PythonFile(text).keywords([edit])])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(w=6)"),
        ("f(a)", "f(a, w=6)"),
        ("f(a, w=0)", "f(a, w=6)"),
        ("f(a, **k)", "f(a, w=6, **k)"),
        ("f(\n    a,\n    b=1,  # 批\n)", "f(\n    a,\n    b=1,  # 批\n    w=6,\n)"),
        ("f(\n    a,\n    b=1\n)", "f(\n    a,\n    b=1,\n    w=6\n)"),
        ("f(a,\n  b=1)", "f(a,\n  b=1,\n  w=6)"),
        ("f(a, b=1,)", "f(a, b=1, w=6,)"),
    ],
)
def test_a_keyword_is_set(before, after):
    assert keywords(before, set=[("w", "6")]) == after
    assert keywords(after, set=[("w", "6")]) == after, "idempotent"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a, w=0)", "f(a)"),
        ("f(w=0)", "f()"),
        ("f(w=0, a=1)", "f(a=1)"),
        ("f(\n    a,\n    w=0,\n)", "f(\n    a,\n)"),
        ("f(a)", "f(a)"),
    ],
)
def test_a_keyword_is_removed(before, after):
    assert keywords(before, remove=["w"]) == after


def test_columns_count_characters():
    text = "名 = '训练'; loader = f(a)  # 注释"
    assert keywords(text, set=[("w", "6")], column=text.index("f(") + 1) == text.replace("f(a)", "f(a, w=6)")


def test_a_call_that_moved_is_refused():
    with pytest.raises(CannotMend, match="no call at line 3"):
        keywords("f(a)", set=[("w", "1")], line=3)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("x = 1\n", "import torch\nx = 1\n"),
        ('"""Doc."""\nimport os\n\nx = 1\n', '"""Doc."""\nimport os\nimport torch\n\nx = 1\n'),
        ("import torch\n", "import torch\n"),
        ("import os, torch\n", "import os, torch\n"),
        ("from __future__ import annotations\nx = 1\n", "from __future__ import annotations\nimport torch\nx = 1\n"),
    ],
)
def test_an_import_is_added_once(text, after):
    new = PythonFile(text).imports(ImportEdit(path="x.py", statement="import torch"))
    assert splice(text, [new] if new else []) == after


def test_newlines_and_encoding_are_kept(tmp_path):
    path = tmp_path / "x.py"
    path.write_bytes("# coding: latin-1\r\nx = 'é'\r\n".encode("latin-1"))
    file = read_file(path)
    assert file.text == "# coding: latin-1\nx = 'é'\n"
    assert file.encode(file.text) == path.read_bytes()
    with pytest.raises(CannotMend, match="does not fit its encoding"):
        file.encode("中")
