import json
from importlib.resources import files

import pytest
from some import some

from gpudoctor.model import Confidence, Severity
from gpudoctor.model.signs.kernel_log import KernelLog, KernelMessage
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.hardware.xid import Xid, events
from gpudoctor_rules import hardware
from gpudoctor_rules.advice import advice

GPUS = [make_gpu(index) for index in range(4)]  # 0000:1b:00.0, 1c, 1d, 1e


def log(*lines, age=600.0):
    messages = tuple(line if isinstance(line, KernelMessage) else KernelMessage(text=line, age=age) for line in lines)
    return KernelLog(origin="dmesg", messages=messages)


def found(*lines, gpus=GPUS, age=600.0, **overrides):
    return examine(Xid, make_patient(gpus=gpus, kernel_log=log(*lines, age=age)), **overrides)


def xid(code, bus="1d", tail="pid=77, name=python, something"):
    return f"NVRM: Xid (PCI:0000:{bus}:00): {code}, {tail}"


@pytest.mark.parametrize(
    ("line", "code", "address"),
    [
        (xid(79), 79, "0000:1d:00"),
        ("[12.3] NVRM: Xid (0000:03:00): 13, Graphics Exception: ESR 0x404490", 13, "0000:03:00"),
        ("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004a 0x0)", 149, "0018:01:00"),
        ("NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.", 79, "0000:9b:00"),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", 20034, "0000:c1:00"),
    ],
)
def test_the_forms_of_a_line(line, code, address):
    [event] = events([KernelMessage(text=line, age=1.0)])
    assert (event.code, event.address) == (code, address)


def test_a_gpu_off_the_bus_is_told_once_however_many_lines_say_so():
    lines = [
        xid(79, tail="pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
        "NVRM: GPU 0000:1d:00.0: GPU has fallen off the bus.",
    ]
    assert [event.code for event in events([KernelMessage(text=line, age=1.0) for line in lines])] == [79]


@pytest.mark.parametrize("code", [46, 48, 54, 62, 64, 74, 79, 95, 110, 119, 120, 140, 143, 158, 171])
def test_sick_events_that_make_a_node_unfit_are_errors(code):
    [finding] = found(xid(code))
    assert finding.severity is Severity.ERROR and finding.subject == "GPU 2" and finding.cost.breaks
    assert finding.confidence is Confidence.CONFIRMED
    assert f"Xid {code}" in finding.message and "10 min ago" in finding.message


@pytest.mark.parametrize("code", [13, 31, 43, 108, 137])
def test_sick_application_events_blame_the_program(code):
    [finding] = found(xid(code))
    assert finding.severity is Severity.NOTE and finding.cost.breaks is None
    assert "not the node" in finding.message
    [again] = found(*[xid(code)] * 3)
    assert again.severity is Severity.WARNING and "3 times" in again.message


NVSWITCH = "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): "
FATAL = "NVRM: Xid (PCI:0000:1d:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x4a)"
NONFATAL = "NVRM: Xid (PCI:0000:1d:00): 145, RLW_REMAP  Nonfatal XC0 i0 Link -1 (0x4)"


@pytest.mark.parametrize(
    ("line", "signs", "severity", "words"),
    [
        (FATAL, {}, Severity.ERROR, ""),
        (NONFATAL, {}, Severity.WARNING, ""),
        (f"{NVSWITCH}20034, Fatal, Link 30 LTSSM Fault Up", {}, Severity.ERROR, ""),
        (f"{NVSWITCH}11004, Non-fatal, Link 46 ingress", {}, Severity.NOTE, ""),
        (xid(777), {}, Severity.WARNING, "not in gpudoctor's table"),
        (xid(79, "ff"), {}, Severity.ERROR, "the GPU at 0000:ff:00"),
    ],
)
def test_sick_by_the_word_fatal_and_by_what_is_not_known(line, signs, severity, words):
    [finding] = found(line, **signs)
    assert finding.severity is severity and words in finding.message


def test_an_event_of_a_log_without_times_is_probable():
    [finding] = found(xid(79), age=None)
    assert finding.confidence is Confidence.PROBABLE


@pytest.mark.parametrize(
    ("asked", "remedy"), [("1 (GPU Reset Required)", "reset"), ("2 (Node Reboot Required)", "reboot")]
)
def test_sick_the_recovery_action_that_the_driver_asks_for(asked, remedy):
    change = f"GPU recovery action changed from 0x0 (None) to 0x{asked}"
    patient = make_patient(gpus=GPUS, kernel_log=log(xid(154, tail=change)))
    [finding] = examine(Xid, patient)
    assert finding.severity is Severity.ERROR and asked[3:-1] in finding.message
    assert prescribe((hardware.xid, *advice("hardware")), finding, patient)[-1].id == f"GPU004-{remedy}"


def test_what_follows_another_event_on_the_same_gpu_is_left_out():
    assert [finding.detail.code for finding in found(xid(31), xid(43), xid(45))] == [31]
    assert sorted(finding.detail.code for finding in found(xid(31, "1b"), xid(45, "1c"))) == [31, 45]


def test_healthy_old_events_other_lines_and_a_demand_that_was_taken_back_are_silent():
    assert found(xid(79), age=90000.0) == []
    assert len(found(xid(79), age=90000.0, window=100000)) == 1
    assert found("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15", "usb 1-1: Xid 79") == []
    assert found(xid(154, tail="recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")) == []


def rows():
    return json.loads(files("gpudoctor_checks.hardware").joinpath("xid.json").read_text())["xids"]


def test_every_row_of_the_table_is_whole_and_has_a_remedy():
    codes = [code for row in rows() for code in row["codes"]]
    assert sorted(codes) == list(range(1, 174))
    for row in some(rows()):
        for code in some(row["codes"]):
            patient = make_patient(gpus=GPUS, kernel_log=log(xid(code)))
            [finding] = examine(Xid, patient)
            remedies = prescribe((hardware.xid, *advice("hardware")), finding, patient)
            assert all(row.get(key) in {None, "note", "warning", "error"} for key in ("repeated", "fatal"))
            assert remedies and row["source"] and row["meaning"].endswith(".") and row["advice"].endswith(".")
            if row["blame"] == "application":
                assert finding.severity is not Severity.ERROR
