"""Which frame is whose."""

import sys

from gpudoctor.probe.call_sites import Places


def stack(*paths):
    """A stack of one function of each file, the innermost first."""
    codes = [compile("", path, "exec") for path in paths]
    return [(code, 0) for code in codes]


def test_a_project_in_a_folder_called_as_an_instrument_measures_nothing(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/home/me/coverage/demo/train.py", raising=False)
    seen = stack("/home/me/coverage/demo/model.py", "/home/me/coverage/demo/train.py")
    assert Places().instrument(seen) is None
    debugger = stack("/home/me/.editor/libs/debugpy/server/api.py", *["/home/me/coverage/demo/train.py"])
    assert Places().instrument(debugger) is debugger[0][0]
    below = stack("/home/me/coverage/demo/vendor/thop/profile.py")
    assert Places().instrument(below) is below[0][0]
