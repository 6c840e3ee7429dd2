"""What a run that is killed has left behind: what gpudoctor knew by then."""

import signal

import pytest
from probed import run_script

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")

KILLED = """
import os, pathlib, signal, time
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3))
model.eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.autograd.set_detect_anomaly(True)
asked, steps = int(os.sys.argv[1]), int(os.sys.argv[2])
x, y = data(16).tensors
for step in range(steps):
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    if step == asked:
        pathlib.Path(os.environ["GPUDOCTOR_RECORDING"], "ending").touch()
    time.sleep(0.01 if asked > 0 else 0)
time.sleep(1.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


def told(tmp_path, asked, steps):
    run = run_script(tmp_path, KILLED, str(asked), str(steps), code=-signal.SIGKILL)
    assert not run.rank.of("end")
    return {item.get("kind_of") or item["kind"]: item for item in run.rank.of("numeric")}, run.rank.of("window")


def test_a_run_that_is_about_to_be_ended_tells_what_it_knows(tmp_path):
    numeric, windows = told(tmp_path, 20, 60)
    assert 20 <= numeric["eval-training"]["step"] < 60
    assert numeric["uncleared"]["found"] >= 19
    assert windows[-1]["end"] >= 20 and windows[-1]["on"]


def test_a_run_that_was_not_announced_to_end_tells_what_it_knew_at_a_doubling(tmp_path):
    numeric, windows = told(tmp_path, -1, 60)
    assert numeric["eval-training"]["step"] == numeric["uncleared"]["step"] == windows[-1]["end"] == 32
