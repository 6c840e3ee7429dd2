"""The replay of a bad step: the first operation that was not finite, in real programs."""

import json

from packages import need
from probed import run_script

need("torch")

LOOP = """
model = {model}
optimizer = {optimizer}
rows = torch.randn(48, 8)
{rows}
loader = DataLoader(TensorDataset(rows, torch.randint(0, 3, (48,))), batch_size=8)
step = 0
for x, y in loader:
    optimizer.zero_grad()
    {loss}
    loss.backward()
    optimizer.step()
    step += 1
"""
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        {forward}
        return self.head(x)

"""
PLAIN = {
    "model": "net()", "optimizer": "torch.optim.SGD(model.parameters(), lr=0.1)", "rows": "",
    "loss": "loss = F.cross_entropy(model(x), y)",
}  # fmt: skip


def replayed(tmp_path, step: int, precision: str = "", forward: str = "", text: str = "", **places: str):
    """The `replay` record of a program, with `# sick` on the guilty line."""
    head = NET.replace("{forward}", forward or "pass") if forward else ""
    body = text
    if not text:
        body = LOOP
        for name, value in {**PLAIN, **places}.items():
            body = body.replace("{" + name + "}", value)
    overrides = {"replay.nan": {"step": step, "precision": precision}, "trial.seed": 20}
    run = run_script(tmp_path, head + body, GPUDOCTOR_OVERRIDES=json.dumps(overrides))
    assert not run.rank.of("lost"), run.rank.of("lost")
    [record] = run.rank.of("replay")
    assert not record["broken"], record["broken"]
    return run, record


def test_a_logarithm_of_zero_in_a_module_leads_to_its_line_and_to_where_it_became_nan(tmp_path):
    run, record = replayed(
        tmp_path, 3, forward="x = x + torch.log(x.abs().sum(dim=1, keepdim=True))  # sick",
        model="Net()", rows="rows[26] = 0",
    )  # fmt: skip
    origin = record["origin"]
    assert (record["found"], origin["step"], origin["operation"], origin["phase"]) == (
        "loss",
        3,
        "log",
        "forward",
    )
    assert (origin["value"], origin["edge"], origin["wide"]) == ("-inf", "zero", "inf")
    assert origin["words"] == "the logarithm of 0: 1 of 8 values are 0"
    assert (origin["place"]["line"], origin["module_class"]) == (run.line("sick"), "Net")
    assert origin["turned"]["place"]["text"] == "return self.head(x)"


def test_a_derivative_leads_to_the_forward_line(tmp_path):
    run, record = replayed(
        tmp_path, 2,
        loss="gap = (model(x) * (step != 2)).pow(2).sum()\n    loss = gap.sqrt()  # sick",
    )  # fmt: skip
    origin = record["origin"]
    assert (record["found"], origin["operation"], origin["phase"]) == ("gradients", "sqrt", "backward")
    assert (origin["node"], origin["edge"]) == ("SqrtBackward0", "derivative")
    assert origin["place"]["line"] == run.line("sick")


def test_a_bad_batch_names_its_items(tmp_path):
    _, record = replayed(tmp_path, 3, rows="rows[26, 1] = float('nan')")
    origin = record["origin"]
    assert (record["found"], origin["kind"], origin["name"]) == ("loss", "batch", "[0]")
    assert (origin["items"], origin["rows"], origin["bad"], origin["of"]) == ([26], [2], 1, 64)


def test_infinities_that_were_meant_are_not_blamed(tmp_path):
    run, record = replayed(
        tmp_path, 1,
        loss="hidden = model(x).masked_fill(torch.arange(8)[:, None] >= 8 - step * 8, float('-inf'))\n"
        "    loss = hidden.softmax(dim=1).sum() + model(x).sum()  # sick",
    )  # fmt: skip
    origin = record["origin"]
    assert (origin["operation"], origin["edge"]) == ("softmax", "masked")
    assert origin["place"]["line"] == run.line("sick")
    assert "masked_fill" in origin["masked_at"]["text"]


def test_a_cast_to_half_that_overflows_and_the_same_step_in_single_precision(tmp_path):
    places = {
        "loss": "with torch.autocast('cpu', dtype=torch.float16):\n"
        "        out = model(x * (1 + 99999 * (step == 3)))  # sick\n    loss = F.cross_entropy(out.float(), y)",
    }
    run, record = replayed(tmp_path, 3, **places)
    origin = record["origin"]
    assert (origin["operation"], origin["dtype"], origin["wide"]) == ("a cast", "float16", "finite")
    assert origin["largest"] > 65504 and origin["place"]["line"] == run.line("sick")
    second = tmp_path / "wide"
    second.mkdir()
    _, wide = replayed(second, 3, "float32", **places)
    assert (wide["losses"], wide["gradients"], wide["narrow"]) == (True, True, 0)


def test_the_optimizers_own_arithmetic_and_weights_that_were_bad_before(tmp_path):
    _run, record = replayed(
        tmp_path, 0, optimizer="torch.optim.Adam(model.parameters(), eps=0.0)",
        loss="loss = F.cross_entropy(model(x * (x < -99)), y)",
    )  # fmt: skip
    origin = record["origin"]
    assert (record["found"], origin["phase"], origin["edge"]) == ("weights", "optimizer", "zero")
    assert origin["place"]["text"] == "optimizer.step()"
    later = tmp_path / "later"
    later.mkdir()
    _, record = replayed(
        later, 5, loss="loss = F.cross_entropy(model(x), y)\n    if step == 2: model[0].weight.data[0, 0] = float('inf')",
    )  # fmt: skip
    assert (record["found"], record["step"], record["names"]) == ("poisoned", 2, ["0.weight"])


def test_a_step_that_is_finite_this_time_says_so(tmp_path):
    _, record = replayed(tmp_path, 2)
    assert (record["found"], record["step"], "origin" in record) == ("nothing", 3, False)
    assert record["operations"] > 50


def test_a_program_that_ends_at_its_nan_still_tells(tmp_path):
    run, record = replayed(
        tmp_path, 2,
        loss="loss = F.cross_entropy(model(x), y) + torch.log(torch.tensor(2.0 - step))  # sick\n"
        "    if not torch.isfinite(loss): raise SystemExit(0)",
    )  # fmt: skip
    assert record["found"] == "ended"
    assert record["origin"]["operation"] == "log" and record["origin"]["place"]["line"] == run.line("sick")
