"""A trace that the profiler of this torch wrote is read: here, where a process with torch is at hand."""

import pytest
from packages import need
from probed import run_without

from gpudoctor.vitals.recording.opening import open_recording

need("torch")


@pytest.mark.slow
def test_a_real_trace_of_this_torch(tmp_path):
    script = tmp_path / "prof.py"
    script.write_text(
        "import sys, torch\nfrom torch.profiler import profile, ProfilerActivity\n"
        "model = torch.nn.Linear(64, 64)\nbest = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "data = torch.utils.data.DataLoader(torch.randn(96, 64), batch_size=16)\n"
        "with profile(activities=[ProfilerActivity.CPU]) as prof:\n    for x in data:\n"
        "        loss = model(x).square().mean()\n        best.zero_grad()\n        loss.backward()\n"
        "        best.step()\n        prof.step()\nprof.export_chrome_trace(sys.argv[1])\n"
    )
    done = run_without(script, str(tmp_path / "t.json"))
    assert done.returncode == 0, done.stderr
    (process,) = open_recording(str(tmp_path / "t.json")).ranks
    table = process.steps
    assert len(table) == 6
    for i in range(len(table)):
        parts = [table.column(name)[i] for name in ("data_wait", "forward", "backward", "optimizer")]
        assert all(part > 0 for part in parts)
        assert sum(parts) <= table.column("duration")[i] * 1.001
