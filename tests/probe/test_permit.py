"""`--allow-watch` asks the kernel for it, and only then."""

import ctypes
import sys

import pytest

from gpudoctor.probe import start


class Kernel:
    def __init__(self):
        self.asked = []

    def prctl(self, option, who, *rest):
        self.asked.append((option, who.value))
        return 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")
def test_the_kernel_is_asked_only_when_the_user_did(monkeypatch):
    kernel = Kernel()
    monkeypatch.setattr(start.ctypes, "CDLL", lambda *words, **more: kernel)
    start.permit({})
    start.permit({"allow_watch": False})
    assert kernel.asked == []
    start.permit({"allow_watch": True})
    assert kernel.asked == [(0x59616D61, ctypes.c_ulong(-1).value)]
