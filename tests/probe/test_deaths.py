"""What is written down of the values that a dying call was given."""

import pytest
from packages import need
from probed import run_script

need("torch")

SIGMOID = """
rows = torch.randn(96, 8)
rows[70, 3] = float("nan")
model = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for (features,) in DataLoader(torch.utils.data.TensorDataset(rows), batch_size=8):
    optimizer.zero_grad()
    F.binary_cross_entropy(model(features), torch.ones(8, 1)).backward()
    optimizer.step()
"""


@pytest.mark.xfail(strict=True, reason="the probe looks for labels out of range only, not for NaN in the batch")
def test_a_loss_outside_of_its_domain_names_the_nan_in_the_batch(tmp_path):
    run = run_script(tmp_path, SIGMOID, code=1)
    told = run.rank.one("exception")
    assert "between 0 and 1" in told["message"]
    assert told["beyond"]["what"] == "nan" and "features" in str(told["beyond"])
