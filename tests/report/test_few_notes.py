"""Of the notes that only a file's text gives, a reader gets few; a program gets all."""

import json
import textwrap

import pytest

from gpudoctor.cli import main

MANY = """
    import torch
    import torch.nn.functional as F
    from torch.cuda.amp import GradScaler, autocast

    from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter()
    device = torch.device("cuda")
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.Flatten(), torch.nn.Linear(57600, 10)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    scaler = GradScaler()
    feed = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 3, 32, 32)), batch_size=8)
    for epoch in range(40):
        for (x,) in feed:
            with autocast():
                loss = F.mse_loss(net(x.to(device)), torch.zeros(8, 10, device=device), size_average=True)
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            print(loss.item())
            torch.save(net.state_dict(), "net.pt")
            writer.add_images("x", x)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit.py").write_text(textwrap.dedent(MANY))
    return "fit.py"


def notes(capsys, *words):
    main(["check", "--ignore", "ENV,GPU", *words])
    return capsys.readouterr().out


def test_three_notes_of_a_file_are_shown_and_the_others_counted(script, capsys):
    every = [
        item for item in json.loads(notes(capsys, script, "--json"))["findings"]
        if item["severity"] == "note" and item["confidence"] == "suspected" and "fit.py" in item["subject"]
    ]  # fmt: skip
    codes = list(dict.fromkeys(item["code"] for item in every))
    assert len(codes) > 3 and len(every) > len(codes), codes
    for words in ([script], [script, "--format", "markdown"], [script, "--format", "html"]):
        text = notes(capsys, *words)
        assert f"fit.py has {len(every) - 3} more notes" in text.replace("&quot;", '"')
    shown = notes(capsys, script)
    assert [code for code in codes if code in shown] == codes[:3]
