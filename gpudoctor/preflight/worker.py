"""A worker: the process that imports torch and measures, one piece of work after the other, for its agent.

It runs in the interpreter of the training (Python 3.9 and later) and imports the standard library, torch and
the modules of `measure` only. It reads one JSON object a line from a socket that its agent gave it, and
answers each with one. It ends with its agent, whoever kills that.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import platform
import signal
import socket
import sys
import traceback
from typing import Any

_EXTRA = 30.0
"""Seconds beyond the limit of its work after which a worker ends itself: its agent is stopped or gone."""


def main() -> Any:
    """Work until the agent hangs up. Arguments: number of the socket, file for stacks."""
    channel, stacks = int(sys.argv[1]), sys.argv[2]
    os.dup2(2, 1)  # what libraries print to standard output goes to standard error: NCCL's notes, warnings
    out = open(stacks, "w")  # noqa: SIM115  # lives as long as the process
    faulthandler.enable(out)
    faulthandler.register(signal.SIGUSR1, out, all_threads=False, chain=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent decides
    stream = socket.socket(fileno=channel).makefile("rwb")
    state: dict[str, Any] = {}
    for line in stream:
        work = json.loads(line)
        # The thread that this starts has no Python: it must not take the signal that asks for a stack.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        faulthandler.dump_traceback_later(work.get("limit", 60.0) + _EXTRA, exit=True, file=out)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        answer = carry_out(work, state)
        faulthandler.cancel_dump_traceback_later()
        stream.write(json.dumps(answer).encode() + b"\n")
        stream.flush()
    return 0


def carry_out(work: Any, state: Any) -> Any:
    """The answer to a piece of work: what was measured, or `failure` with the reason."""
    try:
        module, _, name = work["do"].partition(".")
        if module == "about":
            return about()
        return getattr(importlib.import_module("gpudoctor.preflight.measure." + module), name)(work, state)
    except MissingTorch as error:
        return {"failure": str(error)}
    except Exception as error:  # noqa: BLE001  # whatever it is, the agent reports it
        place = traceback.extract_tb(error.__traceback__)[-1]
        return {
            "failure": " ".join((str(error) or type(error).__name__).split())[:400],
            "error": type(error).__name__,
            "errno": getattr(error, "errno", None),
            "place": f"{os.path.basename(place.filename)}:{place.lineno}",
        }


class MissingTorch(Exception):
    """torch cannot be imported; the text says why."""


def load_torch() -> Any:
    """The module torch; raises `MissingTorch` with the reason."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "torch":
            raise MissingTorch(f"torch is not installed in {sys.executable}") from None
        raise MissingTorch(f"torch cannot be imported by {sys.executable}: {error}") from None
    except Exception as error:  # noqa: BLE001  # a broken installation raises anything
        raise MissingTorch(f"torch cannot be imported by {sys.executable}: {error}") from None
    return torch


def about() -> Any:
    """Versions, and the cards that torch sees."""
    facts = {"python": platform.python_version()}
    try:
        torch = load_torch()
    except MissingTorch as error:
        return {"facts": facts, "cards": 0, "torch": False, "failure": str(error)}
    facts["torch"] = str(torch.__version__)
    facts["CUDA of torch"] = str(torch.version.cuda or "none")
    cards, why = 0, ""
    if torch.version.cuda or getattr(torch.version, "hip", None):
        try:
            cards = torch.cuda.device_count()
            if cards:
                torch.cuda.init()
        except Exception as error:  # noqa: BLE001  # torch names no class for it
            cards, why = 0, "torch cannot use the cards: {}".format(" ".join(str(error).split())[:300])
        with contextlib.suppress(Exception):
            facts["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return {"facts": facts, "cards": cards, "torch": True, "cards_failure": why}


if __name__ == "__main__":
    sys.exit(main())
