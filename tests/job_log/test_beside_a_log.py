"""What lies beside a log adds to its finding: memory snapshots, told by their content."""

import pickle

from log_causes import autopsy, written

MIB = 1 << 20
STEPS = "".join(f"step {number} loss 0.{number} lr 1e-4\n" for number in range(100, 120))
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 1 has a total capacity of "
    "10.00 GiB of which 100.00 MiB is free."
)


def snapshot(*segments):
    """A snapshot of segments: each is a device and its blocks, (MiB, line of train.py or None for a free one)."""
    found = []
    for device, blocks in segments:
        used = sum(size for size, line in blocks if line) * MIB
        found.append(
            {
                "device": device, "total_size": sum(size for size, _ in blocks) * MIB, "allocated_size": used,
                "requested_size": used,
                "blocks": [
                    {
                        "size": size * MIB, "state": "active_allocated" if line else "inactive",
                        "frames": [{"filename": "/home/a/train.py", "line": line or 0, "name": "step"}] if line else [],
                    }
                    for size, line in blocks
                ],
            }
        )  # fmt: skip
    return pickle.dumps({"segments": found, "device_traces": []})


def test_a_snapshot_says_what_held_the_memory_of_the_gpu_that_the_log_names(tmp_path, capsys):
    log = written(tmp_path / "job.out", STEPS + OOM + "\n")
    held = written(tmp_path / "mem", snapshot((0, [(900, 7)]), (1, [(600, 41), (300, 57), (100, None)])))
    code, printed = autopsy(capsys, log, held)
    assert code == 1 and printed.count(" MEM009 ") == 1 + printed.count("explain MEM009 ")
    assert "By the memory snapshot, train.py:41 held 600 MiB and train.py:57 held 300 MiB" in printed
    assert "100 MiB of 1,000 MiB was in fragments" in printed and "train.py:7 " not in printed


def test_a_snapshot_beside_another_death_accuses_nobody(tmp_path, capsys):
    log = written(tmp_path / "job.out", STEPS + "KeyError: 'speaker'\n")
    held = written(tmp_path / "mem.pickle", snapshot((0, [(900, 7)])))
    code, printed = autopsy(capsys, log, held)
    assert code == 1 and "FAIL001" in printed and "out-of-memory" not in printed


def test_a_folder_gives_its_dumps_by_content_and_nothing_else(tmp_path, capsys):
    written(tmp_path / "job.out", STEPS + OOM + "\n")
    written(tmp_path / "memory.pickle", snapshot((1, [(600, 41)])))
    written(tmp_path / "sacct", "JobID|State|ExitCode\n1|FAILED|1:0\n")
    written(tmp_path / "config.json", '{"kind": "Pod"}')
    written(tmp_path / "tokens.pkl", pickle.dumps({"a": 1}))
    written(tmp_path / "LICENSE", "Permission is hereby granted\n")
    code, printed = autopsy(capsys, tmp_path)
    assert code == 1 and "job.out and 2 more" in printed, printed
    assert "train.py:41 held 600 MiB" in printed


def test_without_a_log_the_dump_itself_is_told_of(tmp_path, capsys):
    code, printed = autopsy(capsys, written(tmp_path / "memory.pickle", snapshot((0, [(600, 41)]))))
    assert code == 0 and "device 0 has 600 MiB in use" in printed
    code, printed = autopsy(capsys, written(tmp_path / "broken.pickle", b"\x80\x04nothing"))
    assert code == 3 and "nothing could be read" in printed, printed
