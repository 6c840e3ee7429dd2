from dataclasses import replace

import pytest
from sample_reports import full_report

from gpudoctor.model import LogLine, Setting, SourceSpan
from gpudoctor.model.run import LineShare, RunSummary
from gpudoctor.report import FORMATS, render
from gpudoctor.report.sharing import HiddenNames, shareable
from gpudoctor.report.strings import rewrite
from gpudoctor.ui.console.text_report import render_text

ME = HiddenNames(users=("alice",), hosts=("trainbox.corp.example",), homes=("/home/alice",))
LEAKS = (
    "alice", "bob", "secretproj", "trainbox", "corp.example", "gpu-17", "carol", "my folder", "dave",
    "1654922012345", "8f2c1d3e", "10.20.30.40", "fe80::1", "aa:bb:cc:dd:ee:ff", "zoltan", "bucket-x", "frank",
)  # fmt: skip
TEXTS = (
    "/home/alice/secretproj/train.py:41 opens /data/secretproj/set.h5",
    "in '/home/alice/my folder/a b.py' and \"/srv/secretproj/x y/z.txt\"",
    "C:\\Users\\bob\\secretproj\\train.py, \\\\trainbox\\secretproj\\x.bin, C:/Users/bob/secretproj/z",
    "Nov 20 23:17:01 gpu-17 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=4711",
    "GPU-8f2c1d3e-1111-2222-3333-444455556666, MIG-8f2c1d3e-1111-2222-3333-444455556666, GPU-8f2c1d3e",
    "serial number 1654922012345; Serial: 1654922012345; S/N=1654922012345",
    "carol@corp.example pushed; ssh alice@trainbox",
    "USER=carol HOSTNAME=gpu-17 python train.py --out ~/secretproj/runs --data ~dave/x",
    "master at 10.20.30.40:29500 or fe80::1 via aa:bb:cc:dd:ee:ff",
    "s3://bucket-x/secretproj/data.tar and file:///home/zoltan/secretproj/a.txt",
    "src/secretproj/deep/train.py line 3, ../secretproj/conf.yaml, --config=/opt/secretproj/c.json",
    "Alice's TRAINBOX, path=/home/frank/x;/home/frank/y",
    "https://alice:pw@git.trainbox.corp.example/x",
)


def _report(text):
    """The text in every place where a report has room for one, and in fields that are a path or a host."""
    full = full_report()
    evidence = (
        SourceSpan(path="/home/alice/secretproj/train.py", line=3, text=text),
        Setting(key="SLURMD_NODENAME", value="gpu-17", origin=text, path="/home/alice/secretproj/my folder/c.yaml"),
        Setting(key="training.user", value="carol", origin="environment of pid 12", reproduce=text),
        LogLine(origin="/var/spool/secretproj/job.log", text=text, time=text),
    )
    told = rewrite(full, lambda _: text)
    items = [
        replace(
            item,
            finding=replace(item.finding, evidence=evidence),
            remedies=tuple(replace(remedy, edits=()) for remedy in item.remedies),
        )
        for item in told.findings
    ]
    silenced = tuple(replace(one, finding=items[0].finding) for one in told.silenced)
    path = "/home/alice/secretproj/train.py"
    run = RunSummary(recording="/home/alice/secretproj/recording", command=("python", text))
    return replace(
        told,
        subject=replace(full.subject, host="gpu-17", title=path, targets=(path, "my folder/c.yaml")),
        findings=tuple(items),
        silenced=silenced,
        run=replace(run, lines=(LineShare(path=path, line=3, function=text, share=0.5),)),
    )


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_that_identifies_is_left_in_any_format(text):
    shared = shareable(_report(text), ME)
    shown = [render(shared, format) for format in FORMATS]
    shown.append(render_text(shared, width=100, colour=False, verbose=True))
    for output in shown:
        found = [leak for leak in LEAKS if leak.lower() in output.lower()]
        assert not found, [line for line in output.splitlines() if any(leak in line.lower() for leak in found)][:3]


def _shared_text(text, identity=ME):
    full = full_report()
    return shareable(replace(full, problems=(text,)), identity).problems[0]


@pytest.mark.parametrize(
    "text",
    [
        "train.py: num_workers=0 while 16 CPUs idle",
        "/dev/shm has 64 MiB; see /proc/meminfo and /etc/security/limits.conf",
        "24.1 steps/s, bf16/fp16, 1/2, and/or",
        "nvidia-cudnn-cu12==9.1.0.70 and driver 570.86.15 with torch 2.6.0+cu124",
        "GPU 5 at 0000:1b:00.0 (GPU003), GPU-bound, root cause",
        "https://pytorch.org/docs/stable/data.html",
        "docker run --shm-size=2g image",
        "fp16 / bf16 and a // comment",
    ],
)
def test_what_identifies_nobody_stays(text):
    assert _shared_text(text) == text


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("/home/alice/proj/train.py:41 is slow", "train.py:41 is slow"),
        ("reads '/mnt/x y/train set.h5' again", "reads 'train set.h5' again"),
        ("C:\\Users\\bob\\train.py", "train.py"),
        ("/dev/shm/acme/run7.json is not in /dev/shm", "run7.json is not in /dev/shm"),
        ("USER=carol", "USER=<user>"),
        ("GPU-8f2c1d3e-1111-2222-3333-444455556666", "GPU-<id>"),
        ("on trainbox, run by alice", "on <host>, run by <user>"),
        ("srun: error: n07: task 3: Killed, total-me:9", "srun: error: <host>: task 3: Killed, total-me:9"),
        ("n[06-07] and n06", "<host> and <host>"),
        ("gpu-a100-[07-08], ON gpu-a100-09 CANCELLED", "<host>, ON <host> CANCELLED"),
    ],
)
def test_the_rest_of_a_text_stays_readable(text, shared):
    assert _shared_text(text) == shared


def test_codes_survive_a_user_whose_name_is_part_of_one():
    shared = shareable(full_report(), HiddenNames(users=("data", "gpu003"), hosts=("env",)))
    assert [item.finding.code for item in shared.findings] == ["GPU003", "DATA001", "ENV006", "LOOP008"]
    assert [item.name for item in shared.checks] == [item.name for item in full_report().checks]
