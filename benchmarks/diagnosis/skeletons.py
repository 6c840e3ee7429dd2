"""Two styles of one small training program, with places where an ailment or its cure is put in.

The model is a classifier of random vectors; a step takes a few milliseconds on one CPU core. `{name}` places
are filled with lines at their indentation; what an ailment does not use stays empty. Both styles use the same
names: `model`, `optimizer`, `loader`, `x`, `y`, `out`, `loss`, `step`.
"""

import re

PLAIN = """
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
        self.x = torch.randn(rows, 64)
        self.y = torch.randint(0, 10, (rows,))
        {dataset}

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        {item}
        return self.x[index], self.y[index]


{functions}
model = {model}
{model_made}
optimizer = {optimizer}
loader = DataLoader(Vectors(), {loader})
{before}
step = 0
for epoch in range({epochs}):
    {epoch_start}
    for x, y in loader:
        {step_start}
        {zero_grad}
        {forward}
        {loss}
        {after_loss}
        {backward}
        {after_backward}
        {optimizer_step}
        {after_step}
        step += 1
    {epoch_end}
{after}
print("done", step)
"""

CLASSES = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
{imports}

{setup}


class Vectors(Dataset):
    def __init__(self, rows={rows}):
        self.x = torch.randn(rows, 64)
        self.y = torch.randint(0, 10, (rows,))
        {dataset}

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        {item}
        return self.x[index], self.y[index]


{functions}
class Experiment:
    def __init__(self, model, optimizer, loader):
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.step = 0

    def forward_backward(self, x, y):
        model, optimizer, step = self.model, self.optimizer, self.step
        {step_start}
        {zero_grad}
        {forward}
        {loss}
        {after_loss}
        {backward}
        {after_backward}
        return loss, out, x, y

    def update(self, loss, out, x, y):
        model, optimizer, loader, step = self.model, self.optimizer, self.loader, self.step
        {optimizer_step}
        {after_step}
        self.step += 1

    def fit(self, epochs):
        model, optimizer, loader, step = self.model, self.optimizer, self.loader, self.step
        {before}
        for epoch in range(epochs):
            {epoch_start}
            for x, y in loader:
                self.update(*self.forward_backward(x, y))
            {epoch_end}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = {model}
    {model_made}
    optimizer = {optimizer}
    loader = DataLoader(Vectors(), {loader})
    experiment = Experiment(model, optimizer, loader)
    experiment.fit({epochs})
    {after}
    print("done", experiment.step)


if __name__ == "__main__":
    main()
"""

STYLES = {"plain": PLAIN, "classes": CLASSES}

DEFAULTS = {
    "rows": "1024",
    "epochs": "16",
    "model": "nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))",
    "optimizer": "torch.optim.SGD(model.parameters(), lr=0.01)",
    "loader": "batch_size=64, shuffle=True",
    "zero_grad": "optimizer.zero_grad()",
    "forward": "out = model(x)",
    "loss": "loss = F.cross_entropy(out, y)",
    "backward": "loss.backward()",
    "optimizer_step": "optimizer.step()",
}
"""A program in good health: 256 steps."""


def fill(style: str, places: dict[str, str]) -> str:
    """The program of a style with its places filled. Unknown places raise `KeyError`."""
    template = STYLES[style]
    known = set(re.findall(r"\{(\w+)\}", template))
    unknown = set(places) - known
    if unknown:
        raise KeyError(f"no place {sorted(unknown)[0]} in {style}")
    text = {**dict.fromkeys(known, ""), **DEFAULTS, **places}
    lines: list[str] = []
    for line in template.strip("\n").split("\n"):
        whole = re.fullmatch(r"( *)\{(\w+)\}", line)
        if whole:
            block = text[whole[2]].strip("\n")
            lines += [whole[1] + inner if inner else "" for inner in block.split("\n")] if block else []
        else:
            lines.append(re.sub(r"\{(\w+)\}", lambda found: text[found[1]], line))
    return "\n".join(lines) + "\n"
