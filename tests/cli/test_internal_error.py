"""A fault of gpudoctor says where it is, whatever the folders above gpudoctor are called."""

import pytest

from gpudoctor import cli
from gpudoctor.cli import main


@pytest.mark.parametrize("library", ["/home/me/gpudoctor/.venv/lib/lib.py", "/opt/gpudoctor clone/lib.py"])
def test_only_frames_of_gpudoctor_are_named(monkeypatch, capsys, library):
    names: dict[str, object] = {}
    exec(compile("def fails(*_):\n    raise KeyError('no such thing')", library, "exec"), names)
    monkeypatch.setattr("gpudoctor.cli.parser.parse", names["fails"])
    assert main(["check"]) == 3
    said = capsys.readouterr().err
    assert "internal error: KeyError: 'no such thing' (gpudoctor/cli/__init__.py:" in said
    assert "lib.py" not in said and cli.__file__ not in said


def test_a_check_is_named_from_its_package_on():
    assert cli._our_file("/x/site-packages/gpudoctor_checks/data/a.py") == "gpudoctor_checks/data/a.py"
    assert cli._our_file("/home/me/gpudoctor/train.py") == ""
