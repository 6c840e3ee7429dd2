"""`gpudoctor report` of a saved `nvidia-smi -q`: the machine's checks judge the file, not this machine."""

import json

import pytest
from smi_queries import OLD_TEXT, text

from gpudoctor.cli import main

CSV = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], temperature.gpu\n" + "".join(
    f"2026/03/01 09:00:{s:02}.100, 0, NVIDIA L4, 90 %, 100 MiB, 70.5 W, 50\n" for s in range(9)
)


def report(tmp_path, capsys, words, *flags, name="smi.log"):
    file = tmp_path / name
    file.write_text(words)
    code = main(["report", str(file), *flags])
    printed = capsys.readouterr()
    return code, " ".join(printed.out.split()), printed.err


def found(tmp_path, capsys, words):
    """Severity of each finding by code."""
    file = tmp_path / "smi.log"
    file.write_text(words)
    main(["report", str(file), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    return {item["code"]: item["severity"] for item in report["findings"]}


def test_a_healthy_machine_is_called_so_with_what_was_not_examined(tmp_path, capsys):
    code, printed, _ = report(tmp_path, capsys, text({}, {}))
    assert code == 0
    assert "Nothing is wrong with the 2 GPUs of the machine that wrote smi.log: 10 checks passed." in printed
    assert "remark: " in printed and "it does not contain NVLink ports, so gpudoctor did not examine those" in printed
    assert "this machine" not in printed.lower() and "driver 565.57.01" in printed


@pytest.mark.parametrize(
    ("sick", "code", "severity"),
    [
        ({"uncorrected": "1"}, "GPU003", "error"),
        ({"remapped": "1", "pending": "Yes"}, "GPU003", "error"),
        ({"failure": "Yes"}, "GPU003", "error"),
        ({"threshold": "Yes"}, "GPU003", "error"),
        ({"banks": "2 bank(s)"}, "GPU003", "warning"),
        ({"recovery": "Reset"}, "GPU008", "error"),
        ({"hw": "Active", "hw_thermal": "Active"}, "GPU002", "warning"),
        ({"width": "8x"}, "GPU005", "warning"),
        ({"limit": "500.00 W"}, "GPU010", "warning"),
        ({"persistence": "Disabled"}, "GPU012", "note"),
        ({"mode": "Prohibited"}, "GPU007", "error"),
        ({"status": "Failure"}, "GPU006", "error"),
    ],
)
def test_a_sick_card_is_found_and_its_healthy_neighbour_is_not(sick, code, severity, tmp_path, capsys):
    assert found(tmp_path, capsys, text({}, sick)) == {code: severity}
    _, printed, _ = report(tmp_path, capsys, text({}, sick))
    assert "GPU 1" in printed and "(on the machine that wrote the log)" in printed
    assert "machine that wrote smi.log" in printed


def test_a_lost_card_is_an_error_of_that_machine(tmp_path, capsys):
    gone = "Unable to determine the device handle for GPU 0000:2A:00.0: GPU is lost. Reboot the system\n"
    code, printed, _ = report(tmp_path, capsys, text({}, attached=2) + gone)
    assert code == 1
    assert "The machine that wrote smi.log was not fit for training (1 error)." in printed
    assert "GPU 1 of 2 is lost" in printed


def test_an_old_driver_is_judged_by_what_it_counts(tmp_path, capsys):
    healthy = {"double": "0", "pages": "1", "waits": "No"}
    power = {"GPU010": "warning"}  # 250 W of 300 W
    assert found(tmp_path, capsys, OLD_TEXT.format(**healthy)) == power
    assert found(tmp_path, capsys, OLD_TEXT.format(**healthy | {"double": "1"})) == power | {"GPU003": "error"}
    assert found(tmp_path, capsys, OLD_TEXT.format(**healthy | {"pages": "70"})) == power | {"GPU003": "error"}
    assert found(tmp_path, capsys, OLD_TEXT.format(**healthy | {"waits": "Yes"})) == power | {"GPU003": "warning"}


def test_a_part_of_a_listing_is_not_called_well(tmp_path, capsys):
    words = text({})
    part = words[: words.index("    Temperature\n")]
    code, printed, _ = report(tmp_path, capsys, part)
    assert code == 0
    assert "nothing wrong was found" in printed
    assert "but the file does not contain temperatures and power limits" in printed


@pytest.mark.parametrize("words", [CSV, text({}), text({}) + text({}).replace(":30:01", ":30:02")])
def test_checks_of_a_run_say_nothing_of_a_log_without_one(words, tmp_path, capsys):
    file = tmp_path / "smi.log"
    file.write_text(words)
    main(["report", str(file), "--format", "json"])
    passed = {item["code"] for item in json.loads(capsys.readouterr().out)["outcomes"] if item["outcome"] == "passed"}
    assert {code for code in passed if not code.startswith(("GPU", "ENV"))} == set()
