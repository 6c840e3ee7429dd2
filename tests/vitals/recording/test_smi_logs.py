"""What nvidia-smi writes as CSV, in UTF-16, too."""

from pathlib import Path

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import Recording
from gpudoctor.vitals.recording.opening import open_recording


def read(tmp_path: Path, text: str, encoding: str = "utf-8") -> Recording:
    path = tmp_path / "gpu.log"
    path.write_bytes(text.encode(encoding))
    return open_recording(str(path))


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
