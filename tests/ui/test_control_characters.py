"""Text of others never commands the terminal: every way to standard output and standard error escapes it."""

import io
import shutil
import subprocess
from pathlib import Path

import pytest

from gpudoctor.cli import main
from gpudoctor.mend.file_text import read_file
from gpudoctor.mend.plan import FileMend
from gpudoctor.report.markdown import code, escape
from gpudoctor.report.printable import printable
from gpudoctor.ui.console.canvas import Canvas
from gpudoctor.ui.encoding import write_text

EVIL = "a\x1b]0;x\x07b\rc\x9b31m\u202ed\x7f\u2066"
SAFE = "a\\x1b]0;x\\x07b\\x0dc\\x9b31m\\u202ed\\x7f\\u2066"


class Stream(io.StringIO):
    encoding = "utf-8"


def test_every_way_escapes():
    stream = Stream()
    write_text(EVIL + "\n\tx\n", stream)
    assert stream.getvalue() == SAFE + "\n\tx\n"
    canvas = Canvas(80, colour=False)
    for way in (canvas.paragraph, canvas.literal, canvas.literal_raw, canvas.clipped, canvas.paragraph_raw):
        way(EVIL)
    canvas.split(EVIL, EVIL)
    canvas.joined([EVIL])
    canvas.columns([(EVIL, EVIL)])
    for text in (canvas.text(), escape(EVIL), code(EVIL)):
        assert printable(text) == text


def test_what_is_said_of_a_wrong_name_is_escaped(capsys):
    assert main(["check", f"no-{EVIL}.py"]) == 2
    assert main(["explain", EVIL]) == 2
    assert main([f"--{EVIL}", "check"]) == 2
    said = capsys.readouterr()
    assert printable(said.err + said.out) == said.err + said.out


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git applies the diffs")


def mended(path: Path, text: str, name: str | None = None) -> FileMend:
    path.write_bytes(text.encode())
    old = read_file(path)
    return FileMend(name=name or path.name, old=old, new=old.text.replace("old", "new"), applied=())


@needs_git
@pytest.mark.parametrize(
    "text", ["old\tx\n", "é old\n", "a\n\x0cb\x0bc\u2028d\x1ce\nold\nz", "old", "a\n\nold\n\n", "old\x1b[31m\n"]
)
def test_a_diff_has_the_lines_that_git_counts(tmp_path, text):
    item = mended(tmp_path / "x.py", text)
    (tmp_path / "x.diff").write_bytes(item.diff().encode())
    done = subprocess.run(["git", "apply", "x.diff"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "x.py").read_bytes() == item.new.encode()


SCRIPT = """import torch
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for x, y in torch.utils.data.DataLoader([], batch_size=16):
    loss = (model(x.cuda()) - y.cuda()).pow(2).mean()  # \x1b[31m
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def test_a_file_with_escapes_is_shown_escaped_and_written_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = ["check", "train.py", "--ignore", "ENV,GPU", "--unsafe"]
    main([*words, "--diff"])
    shown = capsys.readouterr()
    assert "\\x1b[31m" in shown.out and "\x1b" not in shown.out
    assert "shown as escapes" in shown.err
    main([*words, "--diff", "--output", "x.diff"])
    assert "\x1b[31m" in (tmp_path / "x.diff").read_text()
    main([*words, "--fix"])
    assert script.read_text() != SCRIPT
    assert "# \x1b[31m\n" in script.read_text()
    script.write_text(SCRIPT.replace("\x1b", ""))
    capsys.readouterr()
    main([*words, "--diff"])
    assert "shown as escapes" not in capsys.readouterr().err
