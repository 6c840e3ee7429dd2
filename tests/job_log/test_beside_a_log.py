"""A folder gives its records and logs by their content, and nothing else."""

import pickle

from log_causes import autopsy, written

STEPS = "".join(f"step {number} loss 0.{number} lr 1e-4\n" for number in range(100, 120))


def test_a_folder_gives_its_records_by_content_and_nothing_else(tmp_path, capsys):
    written(tmp_path / "job.out", STEPS + "KeyError: 'speaker'\n")
    written(tmp_path / "sacct", "JobID|State|ExitCode\n1|FAILED|1:0\n")
    written(tmp_path / "config.json", '{"kind": "Pod"}')
    written(tmp_path / "tokens.pkl", pickle.dumps({"a": 1}))
    written(tmp_path / "LICENSE", "Permission is hereby granted\n")
    code, printed = autopsy(capsys, tmp_path)
    assert code == 1 and "job.out and 1 more" in printed, printed
