import json
import os
from pathlib import Path

import pytest
from programs import call_names, read_main, training

from gpudoctor.model.read_limits import ReadLimit
from gpudoctor.vitals.source import read_source


def unread(path: Path, **options: ReadLimit) -> str:
    source = read_source([path], **options)
    assert source.scripts == ()
    [(name, sentence)] = source.unread
    assert name == str(path)
    assert sentence.startswith(str(path))
    return sentence


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"x = 1\nfor in y:\n", "line 2: syntax error: invalid syntax"),
        (b"x = 1\ny = '\xff'\n", "save it as UTF-8"),
        (b"# -*- coding: klingon -*-\n", "unknown encoding"),
        (b"\x7fELF\0\0\0", "binary file"),
        ("x = 1".encode("utf-16"), "save it as UTF-8"),
        (b"(" * 100000, "line 1: syntax error: too many nested parentheses"),
        (b"-" * 100000 + b"1", "Python cannot parse it"),
        (b"x = 1" + b"0" * 5000, "syntax error"),
    ],
)
def test_what_cannot_be_read_gets_a_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(content)
    assert sentence in unread(path)


def test_sizes_and_absent_files(tmp_path: Path) -> None:
    path = tmp_path / "big.py"
    path.write_bytes(b"x = 1\n" * 1000)
    assert "larger than" in unread(path, limit=ReadLimit(100, "a script"))
    assert "does not exist" in unread(tmp_path / "absent.py")
    loop = tmp_path / "loop.py"
    loop.symlink_to(loop)
    assert unread(loop)
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    assert "no regular file" in unread(pipe)
    assert read_source([Path("a\0b.py")]).unread


def test_declared_encodings_are_respected(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes("# -*- coding: gbk -*-\nx = '训练'\nprint(x)\n".encode("gbk"))
    [script] = read_source([path]).scripts
    assert "训练" in script.text
    path.write_bytes(b"\xef\xbb\xbfprint(1)\r\nprint(2)\r")
    [script] = read_source([path]).scripts
    assert [call.span.line for call in script.calls] == [1, 2]


def test_folders(tmp_path: Path) -> None:
    for name in ("a.py", "deep/b.py", ".git/c.py", "venv/d.py", "x/site-packages/f.py", "g.txt", "deep/h.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import torch\n" if name != "deep/h.py" else "def broken(:\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "pyvenv.cfg").write_text("")
    (tmp_path / "mine" / "i.py").write_text("")
    (tmp_path / "deep" / "up").symlink_to(tmp_path, target_is_directory=True)
    source = read_source([tmp_path])
    assert [Path(script.path).name for script in source.scripts] == ["a.py", "b.py"]
    assert all(script.entry for script in source.scripts)
    [(name, sentence)] = source.unread
    assert name.endswith("h.py")
    assert "line 1" in sentence
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no Python file" in read_source([empty]).unread[0][1]


def test_cyclic_imports_and_imports_of_oneself(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\nfrom b import two\ndef one(): two()\none()\n")
    (tmp_path / "b.py").write_text("import a, b\nfrom a import one\ndef two(): one()\n")
    source = read_source([tmp_path / "a.py"])
    assert [Path(script.path).name for script in source.scripts] == ["a.py", "b.py"]
    assert source.unread == ()


def test_a_broken_import_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\nb.go()\n")
    (tmp_path / "b.py").write_text("def (:\n")
    source = read_source([tmp_path / "a.py"])
    assert call_names(source.scripts[0]) == ["b.go"]
    assert "line 1: syntax error" in source.unread[0][1]


def notebook(*cells: object, language: str = "python") -> str:
    made = [cell if isinstance(cell, dict) else {"cell_type": "code", "source": cell} for cell in cells]
    return json.dumps({"cells": made, "metadata": {"kernelspec": {"language": language}}, "nbformat": 4})


TRAIN = ["for x in loader:\n", "    loss = model(x)\n", "    loss.backward()\n", "    optimizer.step()"]


def test_notebooks(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(
        notebook(
            "import torch\n%matplotlib inline\n!pip install x\nif True:\n    !ls\nfiles = !ls",
            {"cell_type": "markdown", "source": "not code ("},
            "%%bash\nls (",
            "%%time\nprint(1)",
            TRAIN,
            "await go()",
        )
    )
    source = read_source([path])
    assert source.unread == ()
    [script] = source.scripts
    loop = training(script)
    assert loop.span.text == "[cell 5, line 1] for x in loader:"
    assert loop.span.path == str(path)
    assert script.text.split("\n")[loop.span.line - 1] == "for x in loader:"
    assert call_names(script)[0] == "print"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cells": 3}', '{"cells": [3, {"cell_type": "code", "source": 3}]}', "{", "[" * 100000]
)
def test_rubbish_notebooks(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    source = read_source([path])
    assert len(source.scripts) + len(source.unread) == 1


def test_silencing() -> None:
    script = read_main(
        """
for x in loader:
    loss.item()  # gpudoctor: ignore[SYNC001, OBS002] small model
    call(
        a,  # gpudoctor: ignore[data003]
        b,
    )
    # gpudoctor: ignore
    torch.save(
        x
    )
    y = 1  # noqa # gpudoctor:ignore[MEM003]
for z in w:  # gpudoctor: ignore[LOOP001]
    pass
"""
    )
    assert script.ignored[3] == ("SYNC001", "OBS002")
    assert script.ignore_reasons[3] == "small model"
    assert [script.ignored.get(line) for line in (4, 5, 6, 7)] == [("DATA003",)] * 4
    assert [script.ignored.get(line) for line in (8, 9, 10, 11)] == [("*",)] * 4
    assert script.ignored[12] == ("MEM003",)
    assert script.ignored[13] == ("LOOP001",)
    assert 14 not in script.ignored
    assert 2 not in script.ignored
