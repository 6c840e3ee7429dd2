"""What a node says of itself: its CPU quota, by recorded files of control groups."""

import pytest

from gpudoctor.preflight.facts import cpu_quota, node_facts
from gpudoctor.vitals.host import Tree

V2 = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("mounts", "group", "files", "quota"),
    [
        (V2, "0::/job\n", {"/sys/fs/cgroup/job/cpu.max": "50000 100000\n"}, "0.5"),
        (V2, "0::/job\n", {"/sys/fs/cgroup/job/cpu.max": "max 100000\n"}, "none"),
        ("", "", {}, "none"),
    ],
    ids=["version 2", "version 2 without a quota", "no control group"],
)  # fmt: skip
def test_the_cpu_quota_is_that_of_the_control_group(tmp_path, mounts, group, files, quota):
    recorded = {"/proc/self/mountinfo": mounts, "/proc/self/cgroup": group, **files}
    for name, content in recorded.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    assert cpu_quota(Tree(root=str(tmp_path))) == quota


def test_the_quota_is_among_the_facts_that_nodes_compare():
    assert node_facts({})["CPU quota"]
