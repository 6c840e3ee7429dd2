"""The command is what it would be without us: streams, descriptors, environment, exit code; whatever fails here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import Recorded

from gpudoctor.recorder.folder import kept_environment, new_folder, write_manifest
from gpudoctor.recorder.start_command import SITE, CommandError, probed, start


def test_streams_exit_code_and_last_lines_are_the_commands(tmp_path):
    script = tmp_path / "talk.py"
    script.write_text(
        "import sys\ntext = sys.stdin.read()\nprint(text.upper())\nprint('last', file=sys.stderr)\nsys.exit(42)\n"
    )
    code, out, err = Recorded(tmp_path / "rec", [sys.executable, str(script)]).end("hello")
    assert (code, out, err) == (42, "HELLO\n", "last\n")


def test_descriptors_that_the_user_passes_on_arrive_and_none_of_ours_do(tmp_path):
    read, write = os.pipe()
    script = tmp_path / "fds.py"
    script.write_text(
        "import os, sys\nprint(os.read(int(sys.argv[1]), 9).decode())\n"
        "os.closerange(int(sys.argv[1]), int(sys.argv[1]) + 1)\n"
        "print([n for n in range(3, 40) if os.path.exists(f'/proc/self/fd/{n}') and n != int(sys.argv[1])])\n"
    )
    os.write(write, b"handed on")
    os.close(write)
    from recorded import _DRIVER

    (tmp_path / "rec").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, str(tmp_path / "rec"), "{}", sys.executable, str(script), str(read)],
        capture_output=True, text=True, pass_fds=(read,), timeout=60, check=False,
    )  # fmt: skip
    os.close(read)
    lines = done.stdout.splitlines()
    assert lines[0] == "handed on"
    # exists() on the listing itself opens nothing: whatever is open there came from us.
    assert lines[1] == "[]"


def test_the_environment_is_the_users_with_the_probe_first_on_the_path(tmp_path):
    made = probed({"PYTHONPATH": "/mine::/more", "A": "1"}, tmp_path, {"GPUDOCTOR_STEPS": "5"})
    assert made["PYTHONPATH"] == f"{SITE}{os.pathsep}/mine::/more"
    assert made["A"] == "1"
    assert made["GPUDOCTOR_RECORDING"] == str(tmp_path)
    assert made["GPUDOCTOR_STEPS"] == "5"
    assert Path(made["GPUDOCTOR_PROBE"]) == SITE.parent
    # An empty PYTHONPATH is none; joined with a colon it would be the working folder.
    assert probed({"PYTHONPATH": ""}, tmp_path, {})["PYTHONPATH"] == str(SITE)


def test_a_command_that_is_not_there_ends_as_in_a_shell(tmp_path):
    with pytest.raises(CommandError, match="not found") as raised:
        start(["no-such-command-here"], os.environ, [])
    assert raised.value.exit_code == 127
    script = tmp_path / "train.py"
    script.write_text("")
    with pytest.raises(CommandError, match=r"gpudoctor run -- python .*train\.py --lr 1") as raised:
        start([str(script), "--lr", "1"], os.environ, [])
    assert raised.value.exit_code == 126


def test_a_folder_that_cannot_be_written_costs_the_place_not_the_run(tmp_path):
    folder, remark = new_folder("/proc/gpudoctor-recording")
    assert folder.is_dir()
    assert str(folder) in remark and "cannot be written" in remark
    (tmp_path / "file").write_text("")
    from gpudoctor.errors import UsageError

    with pytest.raises(UsageError, match="is a file"):
        new_folder(str(tmp_path / "file"))
    write_manifest(tmp_path / "file" / "x", ["python"], {})  # must not raise
    fresh, _ = new_folder(str(tmp_path / "new"))
    write_manifest(fresh, ["python"], {})
    with pytest.raises(UsageError, match="already contains a recording"):
        new_folder(str(fresh))


def test_a_run_without_any_place_for_its_recording_goes_on(tmp_path):
    script = tmp_path / "fine.py"
    script.write_text("print('fine')\n")
    code, out, err = Recorded(tmp_path / "rec", [sys.executable, str(script)]).end()
    assert (code, out, err) == (0, "fine\n", "")
    # Deleted under our feet:
    script.write_text("import shutil, os\nshutil.rmtree(os.environ['GPUDOCTOR_RECORDING'])\nprint('fine')\n")
    code, out, err = Recorded(tmp_path / "rec2", [sys.executable, str(script)]).end()
    assert (code, out, err) == (0, "fine\n", "")


def test_secrets_are_masked_and_only_variables_of_training_are_kept(tmp_path):
    write_manifest(tmp_path, ["python", "train.py", "--api-key", "abcdef123456"], {})
    text = (tmp_path / "recording.json").read_text()
    assert "abcdef123456" not in text
    kept = kept_environment(
        {"WANDB_API_KEY": "0123456789abcdef", "HF_TOKEN": "hf_abcdefghijk123", "CUDA_VISIBLE_DEVICES": "0,1",
         "WORLD_SIZE": "2", "SECRET_RECIPE": "x", "MY_OWN": "y", "NCCL_DEBUG": "INFO"}
    )  # fmt: skip
    assert kept["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert kept["WORLD_SIZE"] == "2"
    assert kept["NCCL_DEBUG"] == "INFO"
    assert kept["WANDB_API_KEY"] == kept["HF_TOKEN"] == "***"
    assert not {"SECRET_RECIPE", "MY_OWN"} & set(kept)
