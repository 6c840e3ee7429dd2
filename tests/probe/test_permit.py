"""`--allow-watch` asks the kernel for it, and only then."""

import ctypes
import sys

import pytest

from gpudoctor.cli.parser import parse
from gpudoctor.cli.run import _settings
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


def test_the_flag_reaches_the_probe():
    assert _settings(parse(["run", "--allow-watch", "--", "true"])) == {"allow_watch": True}
    assert _settings(parse(["run", "--", "true"])) == {}
    both = _settings(parse(["run", "--allow-watch", "--hang-after", "30", "--", "true"]))
    assert both["allow_watch"] is True and both["hang_after"] == 30.0
