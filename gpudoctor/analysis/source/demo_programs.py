"""Programs that read nothing: they train on noise of their own, to show how a thing is done or to time it."""

import os
import re
import sys

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.checkpoints import saves_of
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.model.signs.source import Call, Known, Script

_LIBRARIES = frozenset(
    {"torch", "torchvision", "numpy", "matplotlib", "tqdm", "timm", "transformers", "accelerate", "deepspeed",
     "lightning", "pytorch_lightning", "fvcore", "thop", "click", "rich", "einops", "scipy", "apex"}
)  # fmt: skip
"""Libraries that bring no data unless one of the calls below asks for it."""
_READS = re.compile(
    r"(^|\.)(open|load|loads|loadtxt|genfromtxt|fromfile|memmap|imread|load_dataset|load_from_disk|listdir|scandir"
    r"|glob|iglob|iterdir|rglob|walk|read_text|read_bytes|urlopen|urlretrieve|input|read|readlines|loadmat"
    r"|load_state_dict_from_url|hf_hub_download|recv)$|torchvision\.(datasets|io)\."
)
_DRAWS = re.compile(r"^(torch|numpy\.random|random)\.(rand\w*|normal|uniform|standard_normal|linspace|default_rng)$")


@once
def rehearses(program: Program) -> bool:
    """Whether a program makes all of its data itself, at random, and keeps no weights.

    Nobody waits for what it trains: an example of ten lines, a benchmark of a layer. An import of anything but
    a well-known library or a module of the program may bring data.
    """
    own = frozenset(
        part for script in program.scripts for part in os.path.normpath(script.path).removesuffix(".py").split(os.sep)
    )
    known = _LIBRARIES | sys.stdlib_module_names | own
    return (
        program.roots <= known
        and any(_draws(script) for script in program.scripts)
        and not any(_reads(script) or saves_of(script) for script in program.scripts)
    )


@once
def _draws(script: Script) -> bool:
    return any(_DRAWS.match(call.name) for call in script.calls)


@once
def _reads(script: Script) -> bool:
    return any(_READS.search(call.name) and not _writes(call) for call in script.calls)


def _writes(call: Call) -> bool:
    """Whether it opens a file to write."""
    mode = call.argument("mode", 1)
    return call.method == "open" and isinstance(mode, Known) and str(mode.value)[:1] in {"w", "a", "x"}
