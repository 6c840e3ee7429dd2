"""Attaching: launchers lead to ranks, threads and workers to their process, and everything else to a sentence."""

import os
import shlex
import subprocess
import sys
import time

import pytest
from watched import READY, training

from gpudoctor.errors import IncompleteError
from gpudoctor.vitals.process import procfs
from gpudoctor.vitals.process.attach import attach, blind_gap
from gpudoctor.vitals.process.dump import Dump, DumpError, dump, find_pyspy

PYSPY = find_pyspy()
IDLE = READY + "import time\nwhile True:\n    time.sleep(0.05)\n"


def refused(pid):
    with pytest.raises(IncompleteError) as error:
        attach([pid], PYSPY)
    return str(error.value)


def test_no_such_process_a_zombie_a_kernel_thread_a_shell_and_another_program():
    assert "there is no process" in refused(4_194_304 - 1)
    zombie = subprocess.Popen(["true"])
    time.sleep(0.3)  # it ends, and nobody has waited for it
    assert "has ended" in refused(zombie.pid)
    zombie.wait()
    assert "there is no process" in refused(zombie.pid)
    shell = subprocess.Popen(["bash", "-c", "read x"], stdin=subprocess.PIPE)
    other = subprocess.Popen(["sleep", "30"])
    try:
        time.sleep(0.2)
        assert "no Python process under it" in refused(shell.pid)
        assert "is not a Python process" in refused(other.pid)
        assert "gpudoctor itself" in refused(os.getpid())
    finally:
        for child in (shell, other):
            child.kill()
            child.communicate()


def test_a_process_a_thread_of_it_and_its_shell_are_the_same_target(tmp_path):
    text = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n" + IDLE
    with training(tmp_path, "train.py", text) as child:
        assert [rank.pid for rank in attach([child.pid], PYSPY).ranks] == [child.pid]
        thread = next(int(tid) for tid in os.listdir(f"/proc/{child.pid}/task") if int(tid) != child.pid)
        attached = attach([thread], PYSPY)
        assert [rank.pid for rank in attached.ranks] == [child.pid]
        assert "is a thread of" in attached.notes[0]
    shell = subprocess.Popen(
        ["bash", "-c", f"{shlex.quote(sys.executable)} -c 'import time; time.sleep(60)'; true"], start_new_session=True
    )
    try:
        time.sleep(0.5)
        python = procfs.tree(shell.pid)[1]
        assert [rank.pid for rank in attach([shell.pid], PYSPY).ranks] == [python]
    finally:
        os.killpg(shell.pid, 9)
        shell.wait()


def test_a_launcher_leads_to_its_ranks_in_order(tmp_path):
    launcher = (
        "import os, subprocess, sys, time\n"
        "for rank in (1, 0, 2):\n"
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], env={**os.environ, 'RANK': str(rank)})\n"
        "time.sleep(0.3)\n" + IDLE
    )
    with training(tmp_path, "launch.py", launcher) as child:
        attached = attach([child.pid], PYSPY)
        try:
            assert [rank.rank for rank in attached.ranks] == [0, 1, 2]
            assert child.pid not in {rank.pid for rank in attached.ranks}
            assert "leads to 3 training processes" in attached.notes[0]
        finally:
            for rank in attached.ranks:
                os.kill(rank.pid, 9)


@pytest.mark.skipif(PYSPY is None, reason="no py-spy")
def test_a_dump_names_lines_and_leaves_the_target_running(tmp_path):
    with training(tmp_path, "train.py", IDLE) as child:
        seen = dump(child.pid, PYSPY)
        for _ in range(5):  # a non-blocking dump may race with the interpreter
            if seen.error is None:
                break
            seen = dump(child.pid, PYSPY)
        if seen.error is DumpError.FORBIDDEN:
            pytest.skip("this machine forbids tracing")
        assert seen.main is not None and seen.main.frames[-1].path.endswith("train.py")
        assert procfs.usage(child.pid).state in "RS"
    assert dump(child.pid, PYSPY).error is DumpError.GONE


def test_each_failure_of_the_sampler_has_a_sentence_and_a_fix(monkeypatch):
    from gpudoctor.vitals.process import attach as permission

    pid = os.getpid()
    assert "pip install py-spy" in blind_gap(pid, dump(pid, None)).fix
    forbidden = Dump(error=DumpError.FORBIDDEN, words="Permission Denied")
    monkeypatch.setattr(permission, "_in_container", lambda: False)
    assert "forbids reading" in blind_gap(pid, forbidden).reason
    monkeypatch.setattr(permission, "_in_container", lambda: True)
    assert "SYS_PTRACE" in blind_gap(pid, forbidden).fix
    monkeypatch.setattr(permission, "_in_container", lambda: False)
    monkeypatch.setattr(procfs, "user", lambda number: "me" if number == pid else "somebody")
    monkeypatch.setattr(permission.os, "geteuid", lambda: 1000)
    other = blind_gap(1, forbidden)
    assert "belongs to somebody" in other.reason and other.fix == "sudo gpudoctor watch 1"
