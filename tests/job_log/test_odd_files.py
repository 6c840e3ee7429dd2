"""Files that are no logs get a sentence."""

import os

from gpudoctor.vitals.job_log import read_job_log


def test_check_calls_an_unreadable_log_an_incomplete_examination(tmp_path, monkeypatch, capsys):
    from gpudoctor.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.out").write_bytes(b"")
    assert main(["check", "job.out", "--quiet"]) == 3
    assert "job.out: is empty" in " ".join(capsys.readouterr().out.split())


def test_a_binary_file_is_named_and_the_rest_is_read(tmp_path):
    binary, text = tmp_path / "a.out", tmp_path / "b.out"
    binary.write_bytes(os.urandom(100_000))
    text.write_text("\x1b[31mValueError: x\x1b[0m\n" * 3)
    log = read_job_log([str(binary), str(text)], ())
    assert [item.path for item in log.files] == [str(text)]
    assert "is not text" in log.problems[0]
