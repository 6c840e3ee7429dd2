"""`--steps` and `--seconds`: the command gets what Ctrl-C would send, and nobody else does."""

import json
import subprocess
import sys
from pathlib import Path

from recorded import Recorded

LOOP = """
import os, signal, sys, time
steps = int(os.environ.get("GPUDOCTOR_STEPS", "0"))
done = 0
try:
    while True:
        time.sleep(0.01)
        done += 1
        if done == steps:  # what the probe of rank 0 does
            open(os.path.join(os.environ["GPUDOCTOR_RECORDING"], "stop"), "w").close()
except KeyboardInterrupt:
    print("saved", flush=True)
    sys.exit(int(sys.argv[1]))
"""


def loop(tmp_path: Path) -> list[str]:
    path = tmp_path / "loop.py"
    path.write_text(LOOP)
    return [sys.executable, str(path)]


def test_seconds_stop_it_and_an_exit_of_0_stays_0(tmp_path):
    run = Recorded(tmp_path / "rec", [*loop(tmp_path), "0"], seconds=0.6)
    code, out, _ = run.end()
    assert (code, out) == (0, "saved\n")
    ending = run.ending()
    assert ending["stopped_by"] == "seconds"
    assert ending["seconds"] >= 0.6


def test_a_shell_that_started_us_lives_on(tmp_path):
    from recorded import _DRIVER

    folder = tmp_path / "rec"
    folder.mkdir()
    words = [sys.executable, "-c", _DRIVER, str(folder), json.dumps({"seconds": 0.5}), *loop(tmp_path), "0"]
    outer = tmp_path / "outer.sh"
    outer.write_text('"$@"\necho "after $?"\n')
    done = subprocess.run(
        ["sh", str(outer), *words], capture_output=True, text=True, timeout=60, start_new_session=True, check=False
    )
    assert done.stdout == "saved\nafter 0\n"


def test_children_of_the_command_get_ctrl_c_too(tmp_path):
    script = tmp_path / "family.py"
    script.write_text(
        "import subprocess, sys, time\n"
        "code = 'import time\\ntry:\\n    time.sleep(60)\\nexcept KeyboardInterrupt:\\n    print(1, flush=True)'\n"
        "child = subprocess.Popen([sys.executable, '-c', code])\n"
        "try:\n    child.wait()\nexcept KeyboardInterrupt:\n    child.wait()\n    print('parent', flush=True)\n"
    )
    run = Recorded(tmp_path / "rec", [sys.executable, str(script)], seconds=1.5)
    code, out, _ = run.end()
    assert (code, out.split()) == (0, ["1", "parent"])
