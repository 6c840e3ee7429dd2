"""Three styles of one small training program, with places where a cause of NaN or of a leak is put in.

Batches of 16 come in order, so row 195 of the data is in step 12. All styles use the same names: in the model
`h` (hidden), in the loss `out`, `x`, `y`; `STEP` stands for the number of the step in the style's own words.
"""

import re

HEAD = """
import math
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
{imports}

torch.manual_seed(0)
torch.set_num_threads(1)
{setup}


class Vectors(Dataset):
    def __init__(self, rows={rows}):
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(rows, 32, generator=generator)
        self.y = torch.randint(0, 10, (rows,), generator=generator)
        {dataset}

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        {item}
        return self.x[index], self.y[index]

"""

NET = """
class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.second = nn.Linear(64, 64)

    def forward(self, x):
        return torch.relu(self.second(torch.tanh(self.first(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = Trunk()
        self.head = nn.Linear(64, 10)
        {init}

    def forward(self, x):
        h = self.trunk(x)
        {forward}
        return self.head(h)

{functions}
"""

PLAIN = (
    HEAD
    + NET
    + """
model = Net()
{model_made}
optimizer = {optimizer}
loader = DataLoader(Vectors(), batch_size=16)
{before}
step = 0
for epoch in range({epochs}):
    for x, y in loader:
        optimizer.zero_grad()
        {forward_pass}
        {loss}
        {backward}
        {after_backward}
        {optimizer_step}
        {after_step}
        step += 1
print("done", step)
"""
)

FUNCTIONS = (
    HEAD
    + NET
    + """
def objective(out, x, y, step):
    {loss}
    return loss


def update(model, optimizer, x, y, step):
    optimizer.zero_grad()
    {forward_pass}
    loss = objective(out, x, y, step)
    {backward}
    {after_backward}
    {optimizer_step}
    return loss, out


def main():
    model = Net()
    {model_made}
    optimizer = {optimizer}
    loader = DataLoader(Vectors(), batch_size=16)
    {before}
    step = 0
    for epoch in range({epochs}):
        for x, y in loader:
            loss, out = update(model, optimizer, x, y, step)
            {after_step}
            step += 1
    print("done", step)


if __name__ == "__main__":
    main()
"""
)

CLASSES = (
    HEAD
    + NET
    + """
class Objective(nn.Module):
    def forward(self, out, x, y, step):
        {loss}
        return loss


class Trainer:
    def __init__(self, model, optimizer, loader):
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.objective = Objective()
        self.step = 0

    def training_step(self, batch):
        x, y = batch
        model, optimizer, step = self.model, self.optimizer, self.step
        optimizer.zero_grad(set_to_none=True)
        {forward_pass}
        loss = self.objective(out, x, y, step)
        {backward}
        {after_backward}
        {optimizer_step}
        return loss, out

    def fit(self, epochs):
        model = self.model
        {before}
        for epoch in range(epochs):
            for batch in self.loader:
                step = self.step
                loss, out = self.training_step(batch)
                {after_step}
                self.step += 1
        print("done", self.step)


def build():
    model = Net()
    {model_made}
    return model, {optimizer}, DataLoader(Vectors(), batch_size=16)


if __name__ == "__main__":
    Trainer(*build()).fit({epochs})
"""
)

STYLES = {"plain": PLAIN, "functions": FUNCTIONS, "classes": CLASSES}

DEFAULTS = {
    "rows": "640", "epochs": "3", "optimizer": "torch.optim.SGD(model.parameters(), lr=0.05)",
    "forward_pass": "out = model(x)", "loss": "loss = F.cross_entropy(out, y)", "backward": "loss.backward()",
    "optimizer_step": "optimizer.step()",
}  # fmt: skip


def fill(style: str, places: dict[str, str]) -> str:
    """The program; a place without anything goes with its line."""
    lines = []
    for line in STYLES[style].strip().split("\n"):
        found = re.search(r"\{(\w+)\}", line)
        if not found:
            lines.append(line)
            continue
        text = {**DEFAULTS, **places}.get(found[1], "")
        if not text:
            if line.strip() != found[0]:
                lines.append(line.replace(found[0], ""))
            continue
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip() == found[0]:
            lines += [indent + part for part in text.split("\n")]
        else:
            lines.append(re.sub(r"\{(\w+)\}", lambda match: {**DEFAULTS, **places}.get(match[1], ""), line))
    return "\n".join(lines) + "\n"
