"""`gpudoctor report` of a saved kernel log: the Xid check reads the file, not this machine."""

import gzip
import json

import pytest

from gpudoctor.cli import main

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=411, name=python, GPU has fallen off the bus."
USUAL = "usb 1-1: new high-speed USB device"
FORMS = {
    "[   99.000001] {}": "99 s after boot",
    "kern  :warn  : [   99.000001] {}": "99 s after boot",
    "<4>[   99.000001] {}": "99 s after boot",
    "[   99.000001] node7 kernel: {}": "99 s after boot",
    "Feb 03 04:05:06 node7 kernel: {}": "at Feb 03 04:05:06.",
    "Feb  3 04:05:06 node7 kernel: [   12.345678] {}": "at Feb 3 04:05:06.",
    "Sat 2024-02-03 04:05:06 UTC node7 kernel: {}": "at Sat 2024-02-03 04:05:06 UTC.",
    "1706929506.123456 node7 kernel: {}": "at 2024-02-03T03:05:06+00:00.",
    "2025-02-03T10:00:00,123456+01:00 {}": "at 2025-02-03T10:00:00,123456+01:00.",
    "{}": "",
}
"""Ways to write a line, and the time that a report gives for it."""
STAMPED = [form for form in FORMS if form != "{}"]


def report(tmp_path, capsys, data, *flags, name="saved.log"):
    file = tmp_path / name
    file.write_bytes(data)
    code = main(["report", str(file), *flags])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def flat(text):
    return " ".join(text.split())


def lines(form, *words):
    return ("\n".join(form.format(text) for text in words) + "\n").encode()


@pytest.mark.parametrize("form", FORMS)
def test_an_xid_is_found_with_its_card_and_the_time_as_it_stands(form, tmp_path, capsys):
    code, printed, _ = report(tmp_path, capsys, lines(form, *([USUAL] if form != "{}" else []), XID))
    assert code == 1
    assert "Xid 79 (GPU has fallen off the bus) on the GPU at 0000:3b:00" + (
        f", {FORMS[form]}" if FORMS[form] else "."
    ) in flat(printed)
    assert "2026" not in printed


def test_the_verdict_and_the_cure_are_about_the_machine_that_wrote_the_log(tmp_path, capsys):
    code, printed, _ = report(tmp_path, capsys, lines(STAMPED[0], USUAL, XID))
    assert code == 1 and "this machine" not in printed
    assert "\nThe machine that wrote saved.log was not fit for training (1 error).\n" in printed
    assert "\n0 checks passed" in printed
    assert "fix: Drain and reboot the node" in flat(printed)
    assert "sudo reboot" in printed


@pytest.mark.parametrize(
    ("name", "pack", "command"),
    [("saved.log", bytes, "cat {} | grep -E"), ("my log.gz", gzip.compress, "gzip -cd '{}' | grep -E")],
)
def test_the_evidence_is_found_again_in_the_file(name, pack, command, tmp_path, capsys):
    data = pack(lines(STAMPED[0], USUAL, XID))
    code, printed, _ = report(tmp_path, capsys, data, "--format", "json", name=name)
    [found] = json.loads(printed)["findings"]
    line, measured = found["evidence"]
    assert code == 1 and line["line"] == 2 and "usb" not in line["text"]
    assert measured["reproduce"] == command.format(tmp_path / name) + ' "Xid|fallen off the bus"'


@pytest.mark.parametrize("end", ["NVRM: Xid (PCI:0000:3b:00): 7", "NVRM: Xid (PCI:0000:3b"])
def test_an_event_that_is_cut_is_left_out(end, tmp_path, capsys):
    code, _, _ = report(tmp_path, capsys, lines(STAMPED[0], USUAL) + f"[  100.000000] {end}".encode())
    assert code == 0


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 999, b"plain words\n" * 99, gzip.compress(b"words\n", mtime=0)])
def test_what_is_no_kernel_log_ends_in_a_sentence(data, tmp_path, capsys):
    code, _, said = report(tmp_path, capsys, data)
    assert code in (2, 3) and "saved.log" in said and "Traceback" not in said
