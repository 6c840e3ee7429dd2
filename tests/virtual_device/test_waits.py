"""Whatever makes the host wait for the device is a wait, with its line; what does not is none."""

from virtual import program, run_virtual, waits

WAITING = (
    "loss.item()",
    "rows[0].tolist()",
    "bool(rows[0, 0] > 0)",
    "rows.to('cpu')",
    "rows.cpu()",
    "(rows > 0).nonzero()",
    "rows.masked_select(rows > 0)",
    "rows.equal(rows)",
)
FREE = ("rows[0] + 1", "torch.where(rows > 0, rows, rows)", "rows.to('vgpu')", "labels.argmax()")
WORK = 2e-3
"""Seconds of work that the device has to do before each."""
STEPS = 30
SCALED = """
scaler = torch.amp.GradScaler("vgpu")
for step in range(30):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(rows), labels)
    scaler.scale(loss).backward()
    vgpu.device.work(8e-3, 0)
    scaler.step(opt)
    scaler.update()
vgpu.tell({})
"""


def test_what_blocks_is_a_wait_with_its_line(tmp_path):
    lines = "".join(f"\n    vgpu.device.work({WORK}, 0)\n    {line}" for line in WAITING + FREE)
    text = program(kernel=2e-6, steps=STEPS, begin=0, after="pass" + lines)
    report, _ = run_virtual(tmp_path, text)
    found = waits(report, text)
    # The first step finds the device; from then on its reads are hooked.
    assert {line: found.get(line, 0.0) > 0.8 * WORK * (STEPS - 2) for line in WAITING} == dict.fromkeys(WAITING, True)
    assert not set(FREE) & set(found)


def test_a_scaler_that_asks_for_infinities_waits(tmp_path):
    text = program(kernel=2e-6).partition("for step")[0] + SCALED
    report, _ = run_virtual(tmp_path, text)
    assert waits(report, text).get("scaler.step(opt)", 0.0) > 0.8 * 8e-3 * (STEPS - 2)
    assert report["run"]["phases"]["sync"] > report["run"]["phases"]["optimizer"]
