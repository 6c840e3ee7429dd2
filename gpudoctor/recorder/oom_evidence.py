"""What the system tells of a death: memory kills counted by the control group, and the kernel's words."""

import re

from gpudoctor.model.redaction import mask_cut
from gpudoctor.model.unavailable import optional
from gpudoctor.vitals.host.cgroup import control_group
from gpudoctor.vitals.kernel_log import read_kernel_log

_TELLING = re.compile(
    r"out of memory|oom|killed process|segfault|general protection|trap |bus error|NVRM|Xid|nvidia|"
    r"I/O error|EXT4-fs error|XFS .*error|nfs: server|hung task|blocked for more than|mce:|Machine check",
    re.IGNORECASE,
)
_MOST, _LONGEST = 40, 300
_BEFORE = 2.0
"""Seconds by which the kernel's clock may be off."""


def memory_kills() -> int:
    """Processes of our control group that were killed for memory so far; 0 where nobody counts."""
    return control_group().memory_kills() or 0


def kernel_lines(seconds: float) -> tuple[str, ...]:
    """Messages of the last so many seconds that speak of memory, a GPU, a disk or a fault; newest last."""
    log = optional(read_kernel_log)
    lines = [
        mask_cut(message.text, _LONGEST)
        for message in (log.messages if log is not None else ())
        if message.age is not None and message.age <= seconds + _BEFORE and _TELLING.search(message.text)
    ]
    return tuple(lines[-_MOST:])
