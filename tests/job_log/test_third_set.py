"""What the third set of logs showed: general faults, each with a text of the test's own."""

import pytest

from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.engine.registry import load_registry
from gpudoctor.vitals.job_log import read_job_log

MESSAGES = tuple(load_registry().log_messages())
HEAD = "Traceback (most recent call last):\n"


def named(tmp_path, text):
    path = tmp_path / "job.out"
    path.write_text(text)
    cause = first_cause(read_job_log([str(path)], MESSAGES))
    if cause is None:
        return None
    return cause.root.code if cause.root else "FAIL018"


def test_the_engine_and_not_its_parent_is_the_cause(tmp_path):
    engine = (
        "(EngineCore_DP0 pid=12) ERROR 03-01 10:00:00 [core.py:718] " + HEAD + "(EngineCore_DP0 pid=12) ERROR "
        "03-01 10:00:00 [core.py:718] ValueError: Free memory on device (9.01/39.5 GiB) on startup is less than "
        "desired GPU memory utilization (0.9, 35.55 GiB). Decrease GPU memory utilization or reduce GPU memory "
        "used by other processes.\n"
    )
    parent = "(APIServer pid=9) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    assert named(tmp_path, engine + parent) == "MEM009"
    assert named(tmp_path, parent) == "FAIL018"


def test_pipes_that_found_their_other_side_closed_are_no_cause(tmp_path):
    thread = HEAD + '  File "/usr/lib/python3.11/threading.py", line 982, in run\nOSError: handle is closed\n'
    assert named(tmp_path, thread * 3) in (None, "FAIL018")
    assert named(tmp_path, thread + HEAD + "RuntimeError: the batch has no labels\n") == "FAIL001"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("/spool/job7/slurm_script: line 100: syntax error: unexpected end of file", "FAIL020"),
        ("train.sh: line 4: syntax error near unexpected token `fi'", "FAIL020"),
        ('job.sh: 12: Syntax error: end of file unexpected (expecting "done")', "FAIL020"),
        ("[INFO] checked 40 files, no syntax error: all is well", None),
    ],
)
def test_a_job_script_that_the_shell_cannot_read(tmp_path, line, code):
    assert named(tmp_path, f"loading modules\n{line}\n") == code


@pytest.mark.parametrize(("name", "code"), [("L", "NUM002"), ("avg_L", "NUM002"), ("VAL", None), ("html", None)])
def test_a_loss_that_is_called_by_its_letter(tmp_path, name, code):
    lines = "".join(f"[INFO] ep=3 step={n}/90 lr=1e-4 {name}=nan time=0.2\n" for n in range(40))
    assert named(tmp_path, lines) == code


def test_a_server_of_the_job_is_not_the_hub(tmp_path):
    frame = '  File "/env/lib/python3.11/site-packages/{}.py", line 233, in send\n    post(url)\n'
    end = "requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))\n"
    assert named(tmp_path, HEAD + frame.format("trl/extras/vllm_client") + end) == "FAIL001"
    assert named(tmp_path, HEAD + frame.format("huggingface_hub/file_download") + end) == "FAIL015"
    below = HEAD + frame.format("urllib3/connectionpool") + "http.client.RemoteDisconnected: Remote end closed\n"
    below += "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert named(tmp_path, below + HEAD + frame.format("trl/extras/vllm_client") + end) == "FAIL001"
    assert named(tmp_path, below + HEAD + frame.format("huggingface_hub/file_download") + end) == "FAIL015"
