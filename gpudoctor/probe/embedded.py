"""A recording that the program itself begins and ends, in a process that `gpudoctor run` has not started."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from .boot import Uncollected, Waiting, load

_here: dict[str, Any] = {}
"""The probe of this process, once there is one."""


def begin(probe_folder: str, recording: str, settings: dict[str, Any]) -> Any:
    """Put the hooks in, the first time, and write into the folder from now on. torch has been imported."""
    probe = _here.get("probe")
    if probe is None:
        wanted = {"GPUDOCTOR_RECORDING": recording, "GPUDOCTOR_SETTINGS": json.dumps(settings)}
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)  # what the probe reads at its start; the program's children must not
        try:
            waiting = Waiting(probe_folder)
            waiting.wanted.discard("torch")
            sys.meta_path.insert(0, waiting)
            with Uncollected():
                probe = _here["probe"] = waiting.probe = load(probe_folder).begin(waiting)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
    else:
        probe.identity.folder = recording
        probe.forked()  # all as in a new process, but for the hooks, which are in
        probe.models.again()
        probe.facts.again()
        if probe.loaders is not None:
            probe.loaders.again()
    probe.show()  # whatever its command line looks like: a kernel, a worker of a cluster
    return probe


def end(probe: Any, error: BaseException | None) -> None:
    """Write what is left; an error is what ended the training."""
    if error is not None:
        probe.guard.safely("ends", probe.deaths.write)(error)
    probe.guard.safely("end", probe.end)()
