"""The mend as a whole: diff, fix, second run, and everything that must not be lost."""

import subprocess

import pytest
from command import gpudoctor

from gpudoctor.errors import IncompleteError
from gpudoctor.mend.plan import make_plan, patch_of
from gpudoctor.mend.write import write_plan
from gpudoctor.model import (
    Applicability,
    Code,
    Confidence,
    Effort,
    Finding,
    ImportEdit,
    Ranked,
    Remedy,
    Severity,
    SourceSpan,
    TextEdit,
)

SICK = """\
import torch
from torch.utils.data import DataLoader

# 训练
def train(model, loader, optimizer, device):
    total = 0
    model.to(device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss          # keep this comment
        torch.cuda.empty_cache()
    return total


device = torch.device("cuda")
model = torch.nn.Linear(1000, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, DataLoader(torch.utils.data.TensorDataset(), batch_size=4), optimizer, device)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SICK, encoding="utf-8")
    return path


def test_diff_changes_nothing_and_applies(script, tmp_path):
    done = gpudoctor("check", "train.py", "--diff", cwd=tmp_path)
    assert script.read_text(encoding="utf-8") == SICK
    assert "-        torch.cuda.empty_cache()" in done.stdout and ".detach()" not in done.stdout
    (tmp_path / "x.patch").write_text(done.stdout, encoding="utf-8")
    subprocess.run(["patch", "-p1", "-i", "x.patch"], cwd=tmp_path, check=True, capture_output=True)
    patched = script.read_text(encoding="utf-8")
    script.write_text(SICK, encoding="utf-8")
    gpudoctor("check", "train.py", "--fix", cwd=tmp_path)
    assert script.read_text(encoding="utf-8") == patched


def test_fix_cures_and_a_second_run_changes_nothing(script, tmp_path):
    first = gpudoctor("check", "train.py", "--fix", cwd=tmp_path)
    assert "fixed train.py" in first.stderr
    assert "MEM003" not in first.stdout and "SYNC002" not in first.stdout
    cured = script.read_text(encoding="utf-8")
    assert "# 训练" in cured and "# keep this comment" in cured
    second = gpudoctor("check", "train.py", "--fix", cwd=tmp_path)
    assert "no edit can be made without your decision" in second.stderr
    assert script.read_text(encoding="utf-8") == cured


def ranked(*remedies, code="MEM003", line=1):
    finding = Finding(
        code=Code(code), name="x", severity=Severity.WARNING, confidence=Confidence.SUSPECTED, message="m",
        evidence=(SourceSpan(path="x.py", line=line),),
    )  # fmt: skip
    return Ranked(rank=1, finding=finding, remedies=remedies, set_aside=(), reason="")


def remedy(*edits, id="R", applicability=Applicability.SAFE):
    return Remedy(id=id, title="t", steps=("s",), applicability=applicability, effort=Effort.ONE_LINE, edits=edits)


def text_edit(path, line, old, new, column=1):
    return TextEdit(
        path=str(path),
        line=line,
        column=column,
        end_line=line,
        end_column=column + len(old),
        new_text=new,
        expected=old,
    )


def test_a_file_that_changed_since_it_was_examined_is_left(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("a = 2\n")
    plan = make_plan([ranked(remedy(text_edit(path, 1, "a = 1", "a = 3")))], unsafe=False)
    assert plan.files == ()
    assert "has changed" in plan.left[0].reason


def test_a_file_that_changes_between_plan_and_write_is_not_overwritten(tmp_path):
    first, second = tmp_path / "x.py", tmp_path / "y.py"
    for path in (first, second):
        path.write_text("a = 1\n")
    plan = make_plan([ranked(remedy(text_edit(path, 1, "a = 1", "a = 3"))) for path in (first, second)], unsafe=False)
    second.write_text("a = 1  # mine\n")
    with pytest.raises(IncompleteError, match="changed by another program"):
        write_plan(plan.files)
    assert first.read_text() == "a = 1\n" and second.read_text() == "a = 1  # mine\n"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["x.py", "y.py"]


@pytest.mark.parametrize("kill_at", ["fsync", "replace"])
def test_a_crash_half_way_leaves_old_or_new(tmp_path, kill_at):
    """The process dies (no cleanup at all) while files are being written."""
    for name in ("x.py", "y.py"):
        (tmp_path / name).write_text("import torch\ntorch.autograd.set_detect_anomaly(True)\n" + SICK)
    code = (
        "import os, sys, gpudoctor.mend.write as w\n"
        f"real = os.{kill_at}\n"
        "count = 0\n"
        "def die(*a, **k):\n"
        "    global count\n"
        "    count += 1\n"
        "    if count == 2: os._exit(9)\n"
        "    return real(*a, **k)\n"
        f"os.{kill_at} = die\n"
        "import gpudoctor.cli\n"
        "gpudoctor.cli.main(['check', 'x.py', 'y.py', '--fix'])\n"
    )
    old = (tmp_path / "x.py").read_text()
    import sys

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 9
    for name in ("x.py", "y.py"):
        text = (tmp_path / name).read_text()
        assert text == old or ("set_detect_anomaly(False)" in text and compile(text, name, "exec"))


def test_a_result_that_would_not_parse_is_refused(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("a = 1\n")
    plan = make_plan([ranked(remedy(text_edit(path, 1, "a = 1", "a = (")))], unsafe=False)
    assert plan.files == () and "would not parse" in plan.left[0].reason
    assert path.read_text() == "a = 1\n"


def test_remedies_that_meet_are_left_for_the_second_run(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("abc = 1\n")
    plan = make_plan(
        [
            ranked(remedy(text_edit(path, 1, "abc", "x"), id="first")),
            ranked(remedy(text_edit(path, 1, "bc = 1", "y = 2", column=2), id="second")),
        ],
        unsafe=False,
    )
    assert plan.files[0].new == "x = 1\n"
    assert [(item.remedy, "again" in item.reason) for item in plan.left] == [("second", True)]


def test_what_may_change_results_needs_leave(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("a = 1\n")
    items = [ranked(remedy(text_edit(path, 1, "a = 1", "a = 2"), applicability=Applicability.UNSAFE))]
    assert make_plan(items, unsafe=False).files == ()
    assert "--unsafe" in make_plan(items, unsafe=False).left[0].reason
    assert make_plan(items, unsafe=True).files[0].new == "a = 2\n"


def test_a_remedy_over_two_files_is_applied_to_both_or_none(tmp_path):
    first, second = tmp_path / "x.py", tmp_path / "y.py"
    first.write_text("a = 1\n")
    second.write_text("b = 1\n")
    both = remedy(text_edit(first, 1, "a = 1", "a = 2"), text_edit(second, 1, "b = 9", "b = 2"))
    assert make_plan([ranked(both)], unsafe=False).files == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train.py", "--unsafe"), "--unsafe needs --fix or --diff"),
        (("train.py", "--diff", "--format", "json"), "unified diff"),
        (("--fix",), "name one"),
    ],
)
def test_flags_that_do_not_go_together(script, tmp_path, words, said):
    done = gpudoctor("check", *words, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr
    assert script.read_text(encoding="utf-8") == SICK


def test_a_line_that_needs_an_import_comes_behind_it(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("import os\n\nprint(os.name)\n")
    line = TextEdit(
        path=str(path),
        line=2,
        column=1,
        end_line=2,
        end_column=1,
        new_text="torch.backends.cudnn.benchmark = True\n",
        expected="",
    )
    remedy = Remedy(
        id="X-line",
        title="a line",
        steps=("a line",),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        edits=(line, ImportEdit(path=str(path), statement="import torch")),
    )
    patch = patch_of(remedy)
    assert patch is not None
    assert patch.index("+import torch") < patch.index("+torch.backends")
