"""`gpudoctor report` of a saved kernel log: the Xid check reads the file, not this machine."""

import json

import pytest

from gpudoctor.cli import main

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=411, name=python, GPU has fallen off the bus."
USUAL = "usb 1-1: new high-speed USB device"
FORMS = {
    "dmesg": "[   12.345678] {}",
    "dmesg with threads": "[   12.345678][  T411] {}",
    "journal": "Feb 03 04:05:06 node7 kernel: {}",
    "iso": "2024-02-03T04:05:06+0100 node7 kernel: {}",
}


def report(tmp_path, capsys, data):
    file = tmp_path / "saved.log"
    file.write_bytes(data)
    code = main(["report", str(file), "--format", "json"])
    return code, capsys.readouterr()


@pytest.mark.parametrize("form", FORMS)
def test_an_xid_is_found_with_its_card(form, tmp_path, capsys):
    text = "\n".join(FORMS[form].format(words) for words in (USUAL, XID))
    code, printed = report(tmp_path, capsys, text.encode())
    [found] = json.loads(printed.out)["findings"]
    assert code == 1 and found["code"] == "GPU004"
    assert "Xid 79" in found["message"] and "0000:3b:00" in found["message"]
    assert ("2024-02-03T" in found["message"]) == (form == "iso")


@pytest.mark.parametrize("form", FORMS)
def test_a_log_without_an_xid_says_so(form, tmp_path, capsys):
    code, printed = report(tmp_path, capsys, FORMS[form].format(USUAL).encode())
    verdict = json.loads(printed.out)["summary"]["verdict"]
    assert code == 0 and "no Xid event" in verdict and "healthy" not in verdict


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 999, b"plain words\n" * 99])
def test_what_is_no_kernel_log_ends_in_a_sentence(data, tmp_path, capsys):
    code, printed = report(tmp_path, capsys, data)
    assert code in (2, 3) and "saved.log" in printed.err and "Traceback" not in printed.err
