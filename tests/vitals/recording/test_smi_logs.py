"""What nvidia-smi writes: with and without times, in UTF-16, as a listing."""

import json
import math
from pathlib import Path

import pytest

from gpudoctor.cli import main
from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import Recording
from gpudoctor.vitals.recording.opening import open_recording

HEADER = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]\n"
ROWS = [
    f"2026/03/01 09:00:{s:02}.100, {g}, NVIDIA L4, {s + g} %, 100 MiB, 70.5 W\n" for s in range(4) for g in range(2)
]
LISTING = """
==============NVSMI LOG==============

Timestamp                                 : Sat May  9 03:38:{second:02} 2026
Driver Version                            : 550.54.15

Attached GPUs                             : 2
GPU 00000000:00:04.0
    Product Name                          : NVIDIA A10G
    FB Memory Usage
        Total                             : 23028 MiB
        Used                              : {used} MiB
    BAR1 Memory Usage
        Total                             : 256 MiB
        Used                              : 3 MiB
    Utilization
        Gpu                               : {util} %
        Memory                            : 12 %
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
    Temperature
        GPU Current Temp                  : 61 C
        GPU Shutdown Temp                 : 100 C
    GPU Power Readings
        Power Draw                        : 149.10 W
        Current Power Limit               : 300.00 W
    Clocks
        SM                                : 1710 MHz
    Max Clocks
        SM                                : 1980 MHz

GPU 00000000:00:05.0
    Product Name                          : NVIDIA A10G
    Utilization
        Gpu                               : N/A
    Temperature
        GPU Current Temp                  : 33 C
"""


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


def test_without_timestamps_rows_are_a_second_apart_and_that_is_said(tmp_path, capsys):
    text = (HEADER + "".join(ROWS)).replace("timestamp, ", "").replace("2026/03/01 ", "")
    text = "\n".join(line.partition(", ")[2] if line[:2] == "09" else line for line in text.splitlines())
    recording = read(tmp_path, text)
    assert list(recording.machine.column("t")) == [0, 1, 2, 3]
    assert list(recording.machine.column("gpu1_util")) == pytest.approx([0.01, 0.02, 0.03, 0.04])
    assert recording.started == "" and "no timestamps" in recording.problems[0]
    assert main(["report", str(tmp_path / "gpu.log"), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert any("no timestamps" in remark for remark in told["remarks"]) and not told["problems"]


@pytest.mark.parametrize(
    "text", ["1, 2, 3\n4, 5, 6\n", "timestamp, loss\n2026/03/01 09:00:00, 0.3\n", "name,score\na,1 %\n", "a | b | c\n"]
)
def test_other_tables_are_no_logs_of_nvidia_smi(tmp_path, text):
    with pytest.raises(UsageError):
        read(tmp_path, text)


def test_a_listing_is_read_section_by_section(tmp_path):
    text = "".join(LISTING.format(second=s, used=1000 + s, util=50 + s) for s in range(3))
    recording = read(tmp_path, text)
    table = recording.machine
    assert list(table.column("t")) == [0, 1, 2]
    assert list(table.column("gpu0_util")) == pytest.approx([0.5, 0.51, 0.52])
    assert list(table.column("gpu0_memory")) == [(1000 + s) << 20 for s in range(3)]
    assert list(table.column("gpu0_clock")) == [1710] * 3  # not those of `Max Clocks`
    assert list(table.column("gpu0_reasons")) == [0x4 | 0x8 | 0x40] * 3
    assert list(table.column("gpu1_temperature")) == [33] * 3 and math.isnan(table.column("gpu1_util")[0])
    (first, second) = recording.machine_facts["gpus"]
    assert (first["name"], first["bytes"], first["power_limit"]) == ("NVIDIA A10G", 23028 << 20, 300.0)
    assert second["name"] == "NVIDIA A10G"
