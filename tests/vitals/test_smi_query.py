"""What a saved `nvidia-smi -q` tells, the same survey as the live driver's."""

import pytest
from smi_queries import OLD_TEXT, text

from gpudoctor.model import Absent
from gpudoctor.model.signs.gpu import RowRemap
from gpudoctor.vitals.recording.opening import open_recording

OLD = {"double": "1", "pages": "1", "waits": "Yes"}


def survey_of(tmp_path, words, name="saved"):
    file = tmp_path / name
    file.write_text(words) if isinstance(words, str) else file.write_bytes(words)
    found = open_recording(str(file)).survey
    assert found is not None
    return found


def gpu_of(tmp_path, words):
    (gpu,) = survey_of(tmp_path, words).gpus
    return gpu


def test_cards_are_told_apart(tmp_path):
    survey = survey_of(tmp_path, text({"uncorrected": "2", "sram": "5", "hw": "Active", "hw_thermal": "Active"}, {}))
    assert (survey.driver_version, survey.cuda_driver_version) == ("565.57.01", (12, 7))
    first, second = survey.gpus
    assert (first.index, second.index) == (0, 1)
    assert first.ecc_uncorrected_volatile == 2 and second.ecc_uncorrected_volatile == 0
    assert first.ecc_sram_uncorrected_aggregate == 5
    assert first.event_reasons == 0x8 | 0x40 and second.event_reasons == 0


def test_every_reading_has_its_unit(tmp_path):
    gpu = gpu_of(tmp_path, text({"width": "8x", "replays": "12", "remapped": "3", "pending": "Yes"}))
    assert gpu.name == "NVIDIA H100 80GB HBM3"
    assert gpu.pci_address == "0000:18:00.0"
    assert (gpu.memory_total, gpu.memory_used) == (81559 << 20, 61000 << 20)  # not those of BAR1
    assert gpu.utilization == pytest.approx(0.98)
    assert (gpu.pcie_width, gpu.pcie_width_max, gpu.pcie_generation) == (8, 16, 5)
    assert (gpu.power, gpu.power_limit, gpu.power_limit_default) == (650.0, 700.0, 700.0)
    assert (gpu.temperature, gpu.temperature_margin, gpu.temperature_memory) == (50.0, 40.0, 60.0)
    assert (gpu.clock_sm, gpu.clock_sm_max) == (1900, 1980)
    assert gpu.row_remap == RowRemap(uncorrectable=3, pending=True, failure=False)
    assert (gpu.persistence, gpu.mig_enabled) == (True, False)
    assert (gpu.compute_mode, gpu.recovery_action) == (0, 0)
    assert (gpu.fabric_state, gpu.fabric_unhealthy) == (3, False)
    assert gpu.display_active is False
    compute, graphics = gpu.processes
    assert (compute.pid, compute.kind, compute.name, compute.memory) == (17142, "compute", "python", 60500 << 20)
    assert (graphics.kind, graphics.name) == ("graphics", "Xorg") and isinstance(graphics.memory, Absent)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("N/A", "not supported by this card"),
        ("[Not Supported]", "not supported by this card"),
        ("Unknown Error", "nvidia-smi printed Unknown Error"),
    ],
)
def test_what_is_no_reading_is_absent_with_its_reason(said, reason, tmp_path):
    gpu = gpu_of(
        tmp_path,
        text(dict.fromkeys(("temperature", "width", "limit", "ecc", "mig", "used", "persistence", "pending"), said)),
    )
    for name in ("temperature", "pcie_width", "power_limit", "mig_enabled", "memory_used",
                 "persistence", "row_remap"):  # fmt: skip
        assert getattr(gpu, name) == Absent(reason), name


def test_the_layout_of_an_old_driver(tmp_path):
    survey = survey_of(tmp_path, OLD_TEXT.format(**OLD))
    (gpu,) = survey.gpus
    assert survey.driver_version == "418.67" and isinstance(survey.cuda_driver_version, Absent)
    assert gpu.pci_address == "0000:06:00.0"
    assert (gpu.ecc_uncorrected_volatile, gpu.ecc_corrected_volatile) == (1, 7)  # totals, once
    assert (gpu.retired_pages, gpu.retired_pages_pending) == (3, True)
    assert gpu.event_reasons == 0x4 and gpu.compute_mode == 3
    assert (gpu.power, gpu.power_limit, gpu.power_limit_default) == (39.12, 250.0, 300.0)
    assert (gpu.temperature_slowdown, gpu.temperature_max) == (87.0, 83.0)
    assert gpu.temperature_memory == Absent("not supported by this card")
    assert gpu.processes == ()
    for name in ("row_remap", "mig_enabled", "recovery_action", "nvlinks"):
        assert getattr(gpu, name) == Absent("the file does not hold it"), name


def test_a_gpu_without_a_handle_is_lost_and_keeps_its_place(tmp_path):
    gone = "Unable to determine the device handle for GPU 00000000:17:00.0: GPU is lost.  Reboot the system\n"
    survey = survey_of(tmp_path, text({}, attached=2) + gone)
    assert [(gpu.index, gpu.cause) for gpu in survey.lost] == [(0, "lost")]
    assert [gpu.index for gpu in survey.gpus] == [1] and survey.unlisted == 0
    named = survey_of(tmp_path, text({"name": "GPU is lost"}, {}))
    assert [gpu.index for gpu in named.lost] == [0] and [gpu.index for gpu in named.gpus] == [1]


def test_of_many_turns_the_last_counts(tmp_path):
    turns = [text({"temperature": f"{50 + s} C"}).replace("06:30:01", f"06:30:{s:02}") for s in range(3)]
    (tmp_path / "log").write_text("".join(turns))
    recording = open_recording(str(tmp_path / "log"))
    assert recording.survey.gpus[0].temperature == 52.0
