"""`gpudoctor run --allow-watch`: leave to be looked at, where the kernel's Yama lets only parents do so."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)


def permit(settings: dict[str, Any]) -> None:
    """Let every process of this user trace this one; only when the user asked for it.

    That is what `ptrace_scope=0` would mean for it, and nothing on a kernel without Yama. A fork does not
    inherit it.
    """
    if settings.get("allow_watch") and sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
