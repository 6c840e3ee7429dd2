"""The traced model: a job's own code on fake tensors, every storage followed. Runs in a child process."""

import importlib.util
import os
import sys
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.ask_child import ask_child
from gpudoctor.lang import say

SECONDS = 600.0
"""How long a trace of a model may take."""


def ask_for_traces(request: dict[str, Any]) -> dict[str, Any]:
    """What the child (`__main__`) answers. Raises `UsageError` where a library is missing, and as `ask_child` does."""
    missing = [name for name in ("torch", "transformers", "peft") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            "--trace needs torch, transformers and peft: pip install torch transformers peft ({missing} cannot be "
            "found by {executable})", missing=", ".join(missing), executable=sys.executable,
        )  # fmt: skip
    path = {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    return ask_child("gpudoctor.estimate.traced.__main__", request, say("the trace"), SECONDS, path)
