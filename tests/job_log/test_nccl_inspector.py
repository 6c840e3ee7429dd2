"""Records of NCCL Inspector: the rank that comes late is named, nobody where all is well, and hostile files survive."""

import gzip
import json
import random

import pytest
from inspector_files import START, lateness_of, record, sent, write_job

from gpudoctor.analysis.job_log.inspected_ranks import late_ranks, remarks, why_not_judged
from gpudoctor.cli import main
from gpudoctor.model import Confidence, Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor.vitals.inspector_lines import read_inspector
from gpudoctor.vitals.left_behind_kinds import LeftKind, kind_of
from gpudoctor_checks.distributed.straggler import StragglingRank
from gpudoctor_rules.distributed import straggler


def read(paths):
    return read_inspector([str(path) for path in paths])


def judged(paths):
    return examine(StragglingRank, make_patient(nccl_inspector=read(paths)))


def report(capsys, command, *names):
    code = main([command, *map(str, names), "--format", "json", "--quiet"])
    return code, json.loads(capsys.readouterr().out)


def test_sick_the_rank_with_the_short_times_is_late(tmp_path):
    [finding] = judged(write_job(tmp_path, late=lateness_of(2, 30_000)))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.PROBABLE)
    assert finding.message == (
        "Rank 2 of communicator 0x7f8c496ae9f661 comes late to its collectives; the others wait 30 % of the recorded "
        "time. Its AllReduce of 64 MiB takes 4.02 ms, theirs 34 ms with the wait."
    )
    assert (finding.detail.rank, finding.detail.node) == (2, "node1")
    assert finding.cost.step_share == pytest.approx(0.30, abs=0.01)
    assert finding.evidence[0].text == ("process 4002 on node1: last in 200 of 200 waits, 200 collectives compared")
    [remedy] = prescribe(straggler, finding, make_patient())
    assert remedy.steps[0].startswith("gpudoctor watch 4002   # on node1")


def test_a_rank_that_is_late_in_one_collective_of_a_step_is_late(tmp_path):
    late = lambda rank, number: 400_000 if rank == 1 and number % 8 == 0 else 0  # noqa: E731
    [finding] = judged(write_job(tmp_path, late=late, collectives=400))
    assert finding.detail.rank == 1 and "last in 50 of 50 waits" in finding.evidence[0].text


def test_records_written_all_at_once_make_a_note(tmp_path):
    [finding] = judged(write_job(tmp_path, late=lateness_of(0, 30_000), step=10))
    assert finding.severity is Severity.NOTE and finding.cost.step_share is None
    assert "of the time in collectives" in finding.message


RANDOM = random.Random(3)


@pytest.mark.parametrize("late", [
    lambda _rank, _number: 0,
    lambda rank, _number: rank * 20,  # 20 us are no wait
    lambda rank, number: 30_000 if rank == number % 4 else 0,  # in turn
    lambda rank, number: 5_000_000 if rank == 0 and number % 100 == 0 else 0,  # it saves
    lambda _rank, _number: RANDOM.randrange(2_000),
])  # fmt: skip
def test_healthy_jobs_give_no_finding(tmp_path, late):
    assert judged(write_job(tmp_path, late=late)) == []


def test_a_rank_that_waits_in_another_communicator_is_not_blamed(tmp_path):
    """Process 3 is slow; 2 waits for it in their tensor group, and so comes late to its own data group."""
    late = lateness_of(1, 30_000)
    write_job(tmp_path, 2, members=[0, 1], communicator=0x10)
    write_job(tmp_path, 2, members=[2, 3], communicator=0x11, late=late)
    write_job(tmp_path, 2, members=[0, 2], communicator=0x20, late=late)
    paths = write_job(tmp_path, 2, members=[1, 3], communicator=0x21, late=late)
    found = late_ranks(read(sorted(tmp_path.iterdir())))
    assert [late.who.process for late in found] == [4003] and len(paths) == 2


@pytest.mark.parametrize("how", [{"kind": "Broadcast"}, {"source": "kernel_cpu"}, {"collectives": 30}])
def test_what_cannot_be_compared_is_not_judged(tmp_path, how):
    with pytest.raises(Unavailable, match="50 are needed"):
        judged(write_job(tmp_path, late=lateness_of(1, 30_000), **how))


def test_a_missing_rank_is_named_and_nobody_else(tmp_path):
    paths = write_job(tmp_path, late=lateness_of(2, 30_000))
    records = read(paths[:3])
    assert why_not_judged(records) == "every communicator lacks the records of a rank"
    assert remarks(records) == ("communicator 0x7f8c496ae9f661: no record of rank 3 of 4 was read",)


def test_records_that_end_early_are_told_as_lost_and_not_as_a_hang(tmp_path):
    paths = write_job(tmp_path)
    lines = paths[3].read_text().splitlines(keepends=True)
    paths[3].write_text("".join(lines[:120]))
    [said] = remarks(read(paths))
    assert "the records of rank 3 end at AllReduce number 119, those of the others at 199" in said
    assert judged(paths) == []


def test_a_communicator_that_is_slower_than_its_like_is_named(tmp_path):
    for group in range(5):
        members = [2 * group, 2 * group + 1]
        write_job(tmp_path, 2, members=members, communicator=0x30 + group, transfer=9_000 if group == 3 else 4_000)
    records = read(sorted(tmp_path.iterdir()))
    [said] = remarks(records)
    assert said.startswith("communicator 0x33 is slow: AllReduce of 64 MiB takes 9.03 ms there, and 4.03 ms in 4 ")
    assert late_ranks(records) == ()


def test_autopsy_reads_a_folder_of_them(tmp_path, capsys):
    folder = tmp_path / "nccl-inspector-4711"
    paths = write_job(folder, late=lateness_of(2, 30_000))
    packed = folder / "node1-pid4001.log.gz"
    packed.write_bytes(gzip.compress(paths[1].read_bytes()))
    paths[1].unlink()
    code, told = report(capsys, "autopsy", folder)
    assert [item["code"] for item in told["findings"]] == ["DIST001"] and code == 0
    assert "Rank 2 of communicator 0x7f8c496ae9f661 comes late" in told["summary"]["verdict"]


def test_autopsy_says_what_it_read_of_a_healthy_job(tmp_path, capsys):
    folder = tmp_path / "job"
    for path in write_job(folder):
        path.rename(path.with_suffix(".jsonl"))
    code, told = report(capsys, "autopsy", folder)
    assert (code, told["findings"]) == (0, [])
    assert told["summary"]["verdict"] == (
        "node1-pid4000.jsonl and 3 more: 800 records of collectives, from 4 processes and 1 communicator; "
        "no rank comes late to the others."
    )


def test_check_takes_them_beside_a_script(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    names = write_job(tmp_path, late=lateness_of(2, 30_000))
    _, told = report(capsys, "check", "train.py", *names, "--gpus", "0")
    assert "DIST001" in [item["code"] for item in told["findings"]]


def test_check_takes_a_folder_of_them_and_says_what_it_read(tmp_path, capsys):
    folder = tmp_path / "job"
    write_job(folder)
    code, told = report(capsys, "check", folder, "--gpus", "0")
    assert "DIST001" not in [item["code"] for item in told["findings"]]
    assert "NCCL Inspector: 800 records of collectives, from 4 processes and 1 communicator" in told["remarks"], code


def test_check_still_examines_the_scripts_of_a_folder_with_such_a_file(tmp_path, capsys):
    write_job(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    _, told = report(capsys, "check", tmp_path, "--gpus", "0")
    assert "NCCL Inspector" not in json.dumps(told["remarks"])


def test_another_json_log_is_none_of_it(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"header": {"a": 1}, "loss": 2.0}\n' * 20)
    assert kind_of(path) is not LeftKind.INSPECTOR


LINE = record(rank=0, ranks=4, number=1, micros=10, stamp=START)
HOSTILE = {
    "deep": '{"header":' * 90_000 + "\n",
    "array": "[" * 200_000 + "\n",
    "huge": LINE.replace('"coll_sn":1', '"coll_sn":' + "9" * 5_000),
    "endless": LINE.replace('"coll_sn":1', '"coll_sn":1e999'),
    "negative": LINE.replace('"coll_exec_time_us":10', '"coll_exec_time_us":-10'),
    "ranks": LINE.replace('"n_ranks":4', '"n_ranks":99999999999'),
    "outside": LINE.replace('"rank":0', '"rank":4'),
    "escape": LINE.replace("node1", "\\u001b[2J"),
    "text": LINE.replace('"rank":0', '"rank":"0"'),
    "null": "null\n",
    "binary": "\x00\x01\x02\n",
    "long": "x" * 600_000 + "\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_line_gets_a_sentence_and_the_others_count(tmp_path, kind):
    paths = write_job(tmp_path, late=lateness_of(2, 30_000))
    with paths[0].open("a") as stream:
        stream.write(HOSTILE[kind])
    records = read(paths)
    assert records.problems == (f"{paths[0]}: 1 line is not a record of NCCL Inspector",)
    assert [late.who.rank for late in late_ranks(records)] == [2]


def test_a_cut_last_line_and_sends_are_no_problem(tmp_path):
    paths = write_job(tmp_path)
    with paths[0].open("a") as stream:
        stream.write(sent(rank=0, ranks=4, number=1, micros=9, stamp=START) + LINE[:150])
    records = read(paths)
    assert records.problems == () and records.ranks[0].sends == 1


def test_an_empty_file_beside_others_is_of_a_process_that_wrote_nothing(tmp_path, capsys):
    paths = write_job(tmp_path / "job")
    paths[1].write_bytes(b"")
    _, told = report(capsys, "autopsy", tmp_path / "job")
    assert f"{paths[1]}: it holds no record of NCCL Inspector" in json.dumps(told)
    assert "no record of rank 1 of 4 was read" in json.dumps(told)


def test_a_damaged_archive_gets_a_sentence(tmp_path):
    paths = write_job(tmp_path)
    data = gzip.compress(paths[0].read_bytes())
    paths[0].write_bytes(data[: len(data) // 2])
    assert "cannot be read to its end" in read(paths).problems[0]


def test_memory_is_bounded_and_the_ranks_keep_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("gpudoctor.vitals.inspector_lines._TIMES_OF_FILE", (256, 256))
    records = read(write_job(tmp_path, collectives=1_500, late=lateness_of(2, 30_000)))
    kept = [set(item.times) for item in records.ranks]
    assert 60 < len(kept[0]) <= 256 and kept.count(kept[0]) == 4
    [late] = late_ranks(records)
    assert late.who.rank == 2 and late.share == pytest.approx(0.30, abs=0.02)


def test_of_a_large_file_the_last_records_are_read(tmp_path, monkeypatch):
    from gpudoctor.model.read_limits import ReadLimit

    monkeypatch.setattr("gpudoctor.vitals.inspector_lines._LEAST_BYTES", 1 << 16)
    monkeypatch.setattr("gpudoctor.vitals.inspector_lines.INSPECTOR_ALL", ReadLimit(1 << 17, "the records"))
    [path, *_] = write_job(tmp_path, collectives=2_000)
    records = read([path])
    assert records.ranks[0].last == {"AllReduce": 1_999} and records.ranks[0].collectives < 400
    assert records.remarks and "read only its last" in records.remarks[0]
