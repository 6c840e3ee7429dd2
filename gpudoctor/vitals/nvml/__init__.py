"""The GPUs through NVML, the PCI bus and the device nodes.

NVML runs in a child process (`child`, `reading`, `funnel`: standard library and pynvml only, so that it
starts fast); `survey` starts it, watches the clock and reads the files that need no driver (`bus`).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.model.signs.gpu import GpuSurvey


def survey_gpus(limit: float = 10.0, own_pids: frozenset[int] = frozenset()) -> "GpuSurvey":
    """What driver, bus and device nodes say; always takeable, even where there is no GPU.

    `limit`: seconds that the driver may stay silent before it counts as hung. `own_pids`: processes of the
    job under examination, which occupy nothing in its eyes. Raises `Unavailable` when no child can be started.
    """
    from gpudoctor.vitals.nvml.survey import take  # the child imports this package too, and wants none of it

    return take(limit=limit, own_pids=own_pids)
