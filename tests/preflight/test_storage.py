"""A folder that each node uses: there, the same, writable, full."""

import os
import subprocess

import pytest

from gpudoctor.preflight.measure import storage

WORK = {"name": ".mark", "content": "abc", "bytes": 1 << 20, "index": 0}


def test_a_folder_that_every_node_sees(tmp_path):
    storage.mark({**WORK, "folder": str(tmp_path)}, {})
    answer = storage.examine({**WORK, "folder": str(tmp_path)}, {})
    assert (answer["visible"], answer["writable"], answer["same"], answer["failure"]) == (True, True, True, "")
    assert [item["quantity"] for item in answer["figures"]] == ["write_bandwidth", "read_bandwidth"]
    storage.mark({**WORK, "folder": str(tmp_path), "remove": True}, {})
    assert os.listdir(tmp_path) == []


def test_a_full_disk(tmp_path):
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"a small disk needs root: {made.stderr.strip()}")
    try:
        answer = storage.examine({**WORK, "content": "", "folder": str(tmp_path)}, {})
        assert answer["failure"] == "full: No space left on device"
        assert os.listdir(tmp_path) == []
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
