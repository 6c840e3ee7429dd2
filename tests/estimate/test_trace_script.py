"""Scripts run on fake tensors: memory by hand, what scripts do beside training, and how they fail."""

import textwrap
import warnings

import pytest
from packages import need

need("torch")

from gpudoctor.errors import UsageError  # noqa: E402
from gpudoctor.estimate.traced.script import trace_script  # noqa: E402

MODEL = """
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            return x + self.down(torch.relu(self.up(x)))

    class Net(nn.Module):
        def __init__(self, width=256):
            super().__init__()
            self.blocks = nn.ModuleList(Block(width) for _ in range(4))

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x
"""
LOOP = """
    assert torch.cuda.is_available()
    net = Net().to("cuda")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    images = torch.randn(50_000, 256)
    for step in range(1_000_000):
        batch = images[torch.randperm(len(images))[:512].tolist()].cuda(non_blocking=True)
        loss = (net(batch) - batch).pow(2).mean()
        if torch.isnan(loss) or loss.item() > 100:
            raise SystemExit("diverged")
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        print(f"{step} {loss:.3f}", torch.cuda.max_memory_allocated())
        torch.save(net.state_dict(), "never.pt")
"""


@pytest.fixture
def traced(tmp_path, capfd):
    def run(*parts, arguments=()):
        path = tmp_path / "train.py"
        path.write_text("".join(textwrap.dedent(part) for part in parts), encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = trace_script(str(path), list(arguments), 0)
        capfd.readouterr()
        return {each.name: each for each in found.instants}, found

    return run


def kinds(instant):
    return {line.kind: line.bytes for line in instant.lines}


def test_memory_of_a_plain_loop_by_hand(traced, tmp_path):
    instants, found = traced(MODEL, LOOP)
    weights = 4 * (2 * 256 * 1024 + 1024 + 256)
    assert (found.parameters, found.layers) == (weights, 4)
    step = kinds(instants["step"])
    # AdamW's foreach implementation, as on CUDA: two moments and one temporary
    for kind, width in (("weights", 4), ("gradients", 4), ("optimizer", 8), ("step-temporaries", 4)):
        assert step[kind] == pytest.approx(width * weights, rel=0.001)
    # a linear keeps its input and relu its output, which the next linear keeps too; the last output for pow
    kept = 4 * 512 * (4 * (256 + 1024) + 256)
    assert kinds(instants["loss"])["activations"] == pytest.approx(kept, rel=0.15)
    # the images stay on the host
    assert found.static < 4 * 50_000 * 256 and "batch" in kinds(instants["forward"])
    assert not (tmp_path / "never.pt").exists()


@pytest.mark.slow
def test_accumulation_autocast_and_a_loader(traced):
    instants, _ = traced(
        MODEL,
        """
        import sys
        from torch.utils.data import DataLoader, TensorDataset
        device = torch.device("cuda")
        net = torch.compile(Net(int(sys.argv[1])).to(device))
        optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cuda")
        data = TensorDataset(torch.randn(4096, 128), torch.randn(4096, 128))
        for at, (x, y) in enumerate(DataLoader(data, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)):
            x, y = x.to(device), y.to(device)
            with torch.autocast("cuda", dtype=torch.float16):
                out = net(x)
                assert torch.mm(x, x.T).dtype is torch.float16
                loss = nn.functional.mse_loss(out, y)
            scaler.scale(loss).backward()
            if at % 2:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
        """,
        arguments=["128"],
    )
    assert "accumulation" in instants
    weights = kinds(instants["step"])["weights"]
    assert kinds(instants["accumulation"])["gradients"] == pytest.approx(weights, rel=0.01)
    assert "gradients" not in kinds(instants["forward"])
    assert kinds(instants["forward"])["activations"] > weights / 2  # autocast's copies in 16 bits


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise RuntimeError('no data here')", "before its model's first forward: RuntimeError: no data here"),
        ("print('nothing')", "ended without an optimizer step"),
        ("import no_such_library", "No module named 'no_such_library'"),
        ("import torch\ntorch.nn.Linear(4, 4)(torch.randn(2, 5))", "before its first optimizer step"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_a_script_that_cannot_be_traced_says_why(traced, body, said):
    with pytest.raises(UsageError) as caught:
        traced(body)
    assert said in str(caught.value) and "train.py" in str(caught.value)


def test_the_world_is_as_before(traced):
    import torch

    before = torch.nn.Module.__call__, torch.autograd._engine_run_backward, torch.compile, torch.save
    with pytest.raises(UsageError):
        traced("1 / 0")
    after = torch.nn.Module.__call__, torch.autograd._engine_run_backward, torch.compile, torch.save
    assert before == after
    assert torch.ones(2).sum().item() == 2.0
