"""Causes of NaN and Inf: what is put into a program, and what a replay of its bad step must say.

Written from what goes wrong in practice; none was made to fit the doctor. The guilty line carries `# sick`.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class NanCause:
    """One way to a loss or gradients that are not finite."""

    name: str
    places: dict[str, str]
    operations: tuple[str, ...]
    """Names that are right for the operation; empty where there is none to name."""
    causes: tuple[str, ...]
    """Classes that are right."""
    phase: str = "forward"
    ranks: int = 1
    styles: tuple[str, ...] = ("plain", "functions", "classes")
    needs: tuple[str, ...] = field(default=())
    """Packages."""


ROW = "self.x[195] = {}"

NAN_CAUSES: list[NanCause] = [
    NanCause(
        name="log-of-underflow",
        operations=("log",),
        causes=("rounding",),
        places={
            "dataset": ROW.format("self.x[195] * 9"),
            "init": "self.temperature = 1.0",
            "forward": "h = h * (1 + (x.abs().mean(dim=1, keepdim=True) > 4) * 4000)",
            "loss": "p = torch.softmax(out, dim=1)\nloss = -torch.log(p.gather(1, y[:, None])).mean()  # sick",
        },
    ),
    NanCause(
        name="log-of-relu",
        operations=("log",),
        causes=("domain",),
        places={
            "dataset": ROW.format("0"),
            "init": "self.gate = nn.Linear(64, 64, bias=False)\nnn.init.zeros_(self.trunk.first.bias)\n"
            "nn.init.zeros_(self.trunk.second.bias)",
            "optimizer": "torch.optim.SGD([p for n, p in model.named_parameters() if 'bias' not in n], lr=0.05)",
            "forward": "power = self.gate(h).abs().sum(dim=1, keepdim=True)\nh = h + 0.01 * torch.log(power)  # sick",
        },
    ),
    NanCause(
        name="std-of-constant",
        operations=("div", "a division"),
        causes=("domain",),
        places={
            "dataset": ROW.format("0.5"),
            "forward_pass": "x = (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True)  # sick\nout = model(x)",
        },
    ),
    NanCause(
        name="sqrt-backward",
        operations=("sqrt",),
        causes=("domain",),
        phase="backward",
        places={
            "dataset": "self.x[196] = self.x[195]",
            "loss": "gap = (out[3] - out[4]).pow(2).sum() if len(out) > 4 else out.sum()\n"
            "spread = torch.sqrt(gap)  # sick\nloss = F.cross_entropy(out, y) + 0.01 * spread",
        },
    ),
    NanCause(
        name="where-after-sqrt",
        operations=("sqrt",),
        causes=("domain",),
        phase="backward",
        places={
            "dataset": ROW.format("0"),
            "forward": "size = h.pow(2).sum(dim=1, keepdim=True) * (x.abs().sum(dim=1, keepdim=True) > 0)\n"
            "root = torch.sqrt(size)  # sick\nh = h / torch.where(size > 0, 1 + root, torch.ones_like(root))",
        },
    ),
    NanCause(
        name="exp-overflow",
        operations=("exp",),
        causes=("overflow",),
        places={
            "dataset": ROW.format("self.x[195] * 4000"),
            "forward": "weight = torch.exp(x.abs().mean(dim=1, keepdim=True) * 0.05)  # sick\n"
            "h = h * (weight / (1 + weight))",
        },
    ),
    NanCause(
        name="fp16-overflow",
        operations=("addmm", "linear", "a matrix product", "mm"),
        causes=("half-overflow",),
        places={
            "dataset": ROW.format("self.x[195] * 60"),
            "init": "self.wide = nn.Linear(64, 64)\nnn.init.ones_(self.wide.weight)",
            "forward": "h = h * (1 + x.abs().mean(dim=1, keepdim=True) ** 3)\nh = self.wide(h) * 1e-3  # sick",
            "forward_pass": "with torch.autocast('cpu', dtype=torch.float16):\n    out = model(x)",
        },
    ),
    NanCause(
        name="bad-row",
        operations=(),
        causes=("bad-input",),
        phase="loader",
        places={"dataset": ROW.format("float('nan')"), "item": "# the file of one item is broken"},
    ),
    NanCause(
        name="bad-target",
        operations=(),
        causes=("bad-input",),
        phase="loader",
        places={
            "dataset": "self.y = self.x[:, :1] * 0.5\nself.y[195] = float('inf')",
            "loss": "loss = F.mse_loss(out[:, :1], y)",
        },
    ),
    NanCause(
        name="masked-row",
        operations=("softmax",),
        causes=("empty",),
        places={
            "dataset": ROW.format("-1"),
            "forward": "scores = h.masked_fill(x.mean(dim=1, keepdim=True) < -0.9, float('-inf'))\n"
            "h = h * torch.softmax(scores, dim=1)  # sick",
        },
    ),
    NanCause(
        name="rate-too-high",
        operations=(
            "addmm",
            "a matrix product",
            "mm",
            "mul",
            "a product",
            "linear",
            "sub",
            "pow",
            "mse_loss",
            "a difference",
            "div",
            "sum",
        ),
        causes=("exploding",),
        phase="any",
        places={
            "optimizer": "torch.optim.SGD(model.parameters(), lr=3.0)",
            "init": "self.trunk.second = nn.Linear(64, 64)",
            "loss": "loss = (out - F.one_hot(y, 10)).pow(2).sum(dim=1).mean()",
        },
    ),
    NanCause(
        name="empty-mean",
        operations=("mean",),
        causes=("empty",),
        places={
            "dataset": "self.y[192:208] = 3",
            "loss": "each = F.cross_entropy(out, y, reduction='none')\nloss = each[y != 3].mean()  # sick",
        },
    ),
    NanCause(
        name="all-ignored",
        operations=("nll_loss", "cross_entropy"),
        causes=("empty",),
        places={
            "dataset": "self.y[192:208] = -100",
            "loss": "loss = F.cross_entropy(out, y)  # sick",
        },
    ),
    NanCause(
        name="std-of-one",
        operations=("std",),
        causes=("empty",),
        places={
            "dataset": "self.y[192:208] = 3\nself.y[200] = 4",
            "loss": "rare = out[y != 3, 0]\nloss = F.cross_entropy(out, y) + 0.1 * rare.std()  # sick",
        },
    ),
    NanCause(
        name="zero-norm",
        operations=("div", "a division"),
        causes=("domain",),
        places={
            "dataset": ROW.format("0"),
            "forward_pass": "x = x / x.norm(dim=1, keepdim=True)  # sick\nout = model(x)",
        },
    ),
    NanCause(
        name="power-of-negative",
        operations=("pow",),
        causes=("domain",),
        places={
            "dataset": "self.x = self.x.abs()\nself.x[195, 3] = -0.2",
            "forward_pass": "x = x ** 0.7  # sick\nout = model(x)",
        },
    ),
    NanCause(
        name="acos-of-cosine",
        operations=("acos",),
        causes=("domain", "rounding"),
        places={
            "dataset": ROW.format("torch.ones(32) * 0.3"),
            "loss": "unit = x / x.pow(2).sum(dim=1, keepdim=True).sqrt()\n"
            "cosine = (unit * unit[:, :1] * math.sqrt(32)).mean(dim=1) * math.sqrt(32) * 1.0000002\n"
            "angle = torch.acos(cosine.clamp(min=-1))  # sick\n"
            "loss = F.cross_entropy(out, y) + 0.001 * angle.masked_fill(cosine < 0.99, 0.0).mean()",
        },
    ),
    NanCause(
        name="adam-without-eps",
        operations=("div", "a division", "addcdiv"),
        causes=("optimizer",),
        phase="optimizer",
        places={
            "optimizer": "torch.optim.Adam(model.parameters(), lr=1e-3, eps=0.0)",
            "init": "self.idle = nn.Parameter(torch.ones(4))",
            "forward": "h = h + 0.0 * self.idle.sum()",
        },
    ),
    NanCause(
        name="uninitialised",
        operations=(),
        causes=("poisoned-weights",),
        phase="any",
        places={
            "init": "self.scale = nn.Parameter(torch.empty(64))\nself.scale.data.fill_(float('nan'))",
            "forward": "h = h * self.scale  # sick",
        },
    ),
    NanCause(
        name="own-function",
        operations=("scale", "scaled"),
        causes=("domain",),
        phase="backward",
        places={
            "functions": "class Scaled(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
            "        size = x.detach().pow(2).sum(dim=1, keepdim=True)\n        ctx.save_for_backward(x, size)\n"
            "        return x\n\n    @staticmethod\n    def backward(ctx, grad):\n"
            "        x, size = ctx.saved_tensors\n        return grad * size / size.sqrt() ** 2  # sick\n",
            "dataset": ROW.format("0"),
            "forward": "h = Scaled.apply(h * (x.abs().sum(dim=1, keepdim=True) > 0))",
        },
    ),
    NanCause(
        name="closure",
        operations=("log",),
        causes=("domain",),
        styles=("plain",),
        places={
            "dataset": ROW.format("0"),
            "optimizer": "torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)",
            "forward_pass": "def closure():\n    optimizer.zero_grad()\n"
            "    loss = F.cross_entropy(model(x), y) + 1e-3 * torch.log(x.abs().sum(dim=1)).mean()  # sick\n"
            "    loss.backward()\n    return loss",
            "loss": "pass",
            "backward": "pass",
            "optimizer_step": "optimizer.step(closure)",
        },
    ),
    NanCause(
        name="compiled",
        operations=("log",),
        causes=("domain",),
        places={
            "dataset": ROW.format("0"),
            "model_made": "model = torch.compile(model, backend='aot_eager')",
            "forward": "h = h + 1e-3 * torch.log(x.abs().sum(dim=1, keepdim=True))  # sick",
        },
    ),
    NanCause(
        name="half-weights",
        operations=("div", "a division", "addcdiv", "add", "sqrt"),
        causes=("optimizer", "half-overflow", "rounding"),
        phase="optimizer",
        places={
            "model_made": "model = model.to(torch.float16)",
            "optimizer": "torch.optim.Adam(model.parameters(), lr=1e-3)",
            "forward_pass": "out = model(x.half()).float()",
        },
    ),
    NanCause(
        name="two-ranks",
        ranks=2,
        operations=("log",),
        causes=("domain",),
        styles=("plain",),
        places={
            "setup": "torch.distributed.init_process_group('gloo')\nrank = torch.distributed.get_rank()",
            "dataset": "if rank == 1:\n    self.x[195] = 0",
            "model_made": "model = nn.parallel.DistributedDataParallel(model)",
            "forward": "h = h + 1e-3 * torch.log(x.abs().sum(dim=1, keepdim=True))  # sick",
        },
    ),
]
