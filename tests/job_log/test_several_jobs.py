"""Logs of several jobs in one folder: one job is judged, and the others are named."""

import os

import pytest

from gpudoctor.vitals.build_log_patient import sort_left_behind
from gpudoctor.vitals.file_kinds import FileKind
from gpudoctor.vitals.jobs_of_logs import job_of, last_job


@pytest.mark.parametrize(
    ("path", "job"),
    [
        ("logs/slurm-4711.out", "4711"),
        ("slurm-4711_3.out.gz", "4711_3"),
        ("train.o48213", "48213"),
        ("llama-pretrain-9481234.err", "9481234"),
        ("9481234_0_log.out", "9481234"),
        ("logs/job_4711/rank3.log", "4711"),
        ("rank_0.log", ""),
        ("worker-23456.out", ""),
        ("train-20240301.out", ""),
        ("train.log", ""),
        ("torchelastic/attempt_0/3/stderr.log", ""),
    ],
)
def test_the_number_of_a_job_in_the_names_of_its_files(path, job):
    assert job_of(path) == job


def written(folder, **ages):
    for name, age in ages.items():
        path = folder / f"{name.replace('_', '-')}.out"
        path.write_text("step 1 loss 2.0\n", encoding="utf-8")
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))


def test_the_job_that_wrote_last_is_judged_and_the_others_are_named(tmp_path):
    written(tmp_path, slurm_103=100, slurm_102=0, slurm_101=200)
    found = sort_left_behind([str(tmp_path)])
    assert [os.path.basename(path) for path in found.of(FileKind.LOG)] == ["slurm-102.out"]
    [problem] = found.problems
    assert "job 102" in problem and "2 files of 2 other jobs" in problem


def test_files_copied_at_one_moment_go_by_their_numbers(tmp_path):
    written(tmp_path, slurm_99=0, slurm_103=0, slurm_101=0)
    logs, others = last_job(sorted(str(path) for path in tmp_path.iterdir()))
    assert [os.path.basename(path) for path in logs] == ["slurm-103.out"] and len(others) == 2


def test_healthy_the_files_of_one_job_stay_together(tmp_path):
    written(tmp_path, slurm_4711=0, rank_0=5, rank_1=9, node_10001=3, node_10002=4)
    assert len(sort_left_behind([str(tmp_path)]).of(FileKind.LOG)) == 5
