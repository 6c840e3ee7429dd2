"""What nvidia-smi writes as CSV, in UTF-16, too."""

from pathlib import Path

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import Recording
from gpudoctor.vitals.recording.opening import open_recording

HEADER = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]\n"
ROWS = [
    f"2026/03/01 09:00:{s:02}.100, {g}, NVIDIA L4, {s + g} %, 100 MiB, 70.5 W\n" for s in range(4) for g in range(2)
]


def read(tmp_path: Path, text: str, encoding: str = "utf-8") -> Recording:
    path = tmp_path / "gpu.log"
    path.write_bytes(text.encode(encoding))
    return open_recording(str(path))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_a_log_is_the_same_in_each_encoding(tmp_path, encoding):
    text = ("\ufeff" if encoding == "utf-16-be" else "") + HEADER + "".join(ROWS)
    table = read(tmp_path, text.replace("\n", "\r\n"), encoding).machine
    assert list(table.column("gpu1_util")) == pytest.approx([0.01, 0.02, 0.03, 0.04])
    assert list(table.column("t")) == pytest.approx([0, 1, 2, 3])


def test_gpus_are_told_by_their_order_where_no_column_tells_them(tmp_path):
    text = "timestamp, utilization.gpu [%]\n" + "".join(
        f"2026/03/01 09:00:{s:02}, {u} %\n" for s in (0, 1) for u in (3, 5)
    )
    table = read(tmp_path, text).machine
    assert list(table.column("gpu1_util")) == pytest.approx([0.05, 0.05])


@pytest.mark.parametrize(
    "text",
    [
        "1, 2, 3\n4, 5, 6\n",
        "timestamp, loss\n2026/03/01 09:00:00, 0.3\n",
        "name,score\na,1 %\n",
        "a | b | c\n",
        "name, power.draw [W]\nx, 3 W\n",
    ],
)
def test_other_tables_are_no_logs_of_nvidia_smi(tmp_path, text):
    with pytest.raises(UsageError):
        read(tmp_path, text)
