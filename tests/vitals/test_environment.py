"""Variables of this process and of another one."""

import os
import subprocess
import sys

from gpudoctor.vitals.environment import read_environment


def test_own_variables_with_secrets_masked(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("PROXY", "http://me:pw12@proxy:80")
    sign = read_environment()
    assert sign.get("WANDB_API_KEY") == "***"
    assert sign.get("NCCL_DEBUG") == "INFO"
    assert sign.get("PROXY") == "http://***@proxy:80"
    assert sign.origin == "environment"


def test_another_process():
    variables = {**os.environ, "CUDA_LAUNCH_BLOCKING": "1", "HF_TOKEN": "hf_x"}
    command = [sys.executable, "-c", "print('up', flush=True); input()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"  # it has its environment now
        sign = read_environment(child.pid)
    finally:
        child.communicate(b"\n")
    assert sign.get("HF_TOKEN") == "***"
    assert sign.origin == f"environment of pid {child.pid}"


def test_libraries_on_the_loader_path_are_seen(tmp_path, monkeypatch):
    (tmp_path / "libnccl.so.2").touch()
    (tmp_path / "libncurses.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere::{tmp_path}")
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert read_environment().shadowing == (("libnccl.so", str(tmp_path / "libnccl.so.2")),)
