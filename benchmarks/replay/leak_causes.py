"""Causes of memory that grows with the steps: what is put into a program, and what a bisection must find.

The guilty line carries `# sick`. Each leaves some hundred KiB behind in a step, so that half a minute shows it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LeakCause:
    """One way to leak."""

    name: str
    places: dict[str, str]
    line: bool = True
    """Whether a line is guilty (it carries `# sick`); else `holders` says what is right."""
    holders: tuple[str, ...] = ()
    """Words of which the answer's holder must begin with one."""
    keeps: tuple[str, ...] = ()
    """Right answers for the smallest change of the line; empty takes any."""
    styles: tuple[str, ...] = ("plain", "functions", "classes")


LONG = {"rows": "20000", "epochs": "3"}
FEATURES = "torch.zeros(64, 1024) + step"

LEAK_CAUSES: list[LeakCause] = [
    LeakCause(
        name="outputs-with-graph",
        keeps=("nothing", "last", "number", "detached"),
        places={
            **LONG,
            "before": "kept = []",
            "forward_pass": "out = model(x.repeat(40, 1))[:16]",
            "after_step": "kept.append(out.mean())  # sick",
        },
    ),
    LeakCause(
        name="features-in-list",
        keeps=("nothing", "last"),
        places={**LONG, "before": "bank = []", "after_step": f"bank.append({FEATURES})  # sick"},
    ),
    LeakCause(
        name="cache-by-step",
        keeps=("nothing",),
        places={**LONG, "before": "cache = {}", "after_step": f"cache[step] = {FEATURES}  # sick"},
    ),
    LeakCause(
        name="history-of-module",
        keeps=("nothing", "last"),
        places={
            **LONG,
            "init": "self.history = []",
            "forward": "self.history.append(h.detach().repeat(64, 1))  # sick",
        },
    ),
    LeakCause(
        name="concatenated",
        keeps=("nothing",),
        places={
            **LONG,
            "before": "seen = torch.zeros(0, 1024)",
            "after_step": "seen = torch.cat([seen, torch.zeros(64, 1024)])  # sick",
        },
    ),
    LeakCause(
        name="class-attribute",
        keeps=("nothing", "last"),
        places={
            **LONG,
            "functions": "class Tracker:\n    values = []\n\n    @classmethod\n    def add(cls, value):\n"
            "        cls.values.append(value)  # sick\n",
            "after_step": f"Tracker.add({FEATURES})",
        },
    ),
    LeakCause(
        name="default-argument",
        keeps=("nothing", "last"),
        places={
            **LONG,
            "functions": "def remember(value, store=[]):\n    store.append(value)  # sick\n",
            "after_step": f"remember({FEATURES})",
        },
    ),
    LeakCause(
        name="hooks-again-and-again",
        line=False,
        holders=("hooks",),
        places={
            **LONG,
            "after_step": f"extra = {FEATURES}\n"
            "model.head.register_forward_hook(lambda module, args, out, extra=extra: None)",
        },
    ),
    LeakCause(
        name="cycles-without-collector",
        line=False,
        holders=("reference cycles",),
        places={
            **LONG,
            "imports": "import gc",
            "setup": "gc.disable()",
            "functions": "class Node:\n    def __init__(self, value):\n        self.value, self.me = value, self\n",
            "after_step": f"Node({FEATURES})",
        },
    ),
    LeakCause(
        name="item-cache",
        keeps=("nothing",),
        places={
            **LONG,
            "dataset": "self.cache = {}",
            "item": "self.cache[index] = torch.zeros(4, 1024) + index  # sick",
        },
    ),
]
