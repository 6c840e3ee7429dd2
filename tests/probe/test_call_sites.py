"""Which frame is whose."""

import sys
import sysconfig

from gpudoctor.probe.call_sites import Places

SITE = "/env/lib/python3.11/site-packages/torch/"


def stack(*paths):
    """A stack of one function of each file, the innermost first."""
    codes = [compile("", path, "exec") for path in paths]
    return [(code, 0) for code in codes]


def test_a_function_that_measures_the_program_is_found_in_the_stack():
    seen = stack(SITE + "nn/functional.py", SITE + "utils/flop_counter.py", "/home/me/train.py")
    assert Places().instrument(seen) is seen[1][0]


def test_a_project_in_a_folder_called_as_an_instrument_measures_nothing(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/home/me/coverage/demo/train.py", raising=False)
    seen = stack("/home/me/coverage/demo/model.py", "/home/me/coverage/demo/train.py")
    assert Places().instrument(seen) is None
    debugger = stack("/home/me/.editor/libs/debugpy/server/api.py", *["/home/me/coverage/demo/train.py"])
    assert Places().instrument(debugger) is debugger[0][0]
    below = stack("/home/me/coverage/demo/vendor/thop/profile.py")
    assert Places().instrument(below) is below[0][0]


def test_the_users_function_is_the_innermost_one_that_no_library_has():
    place = sysconfig.get_path("stdlib")
    seen = stack(f"{place}/queue.py", "/home/me/model.py", "/home/me/train.py")
    assert Places().user_index(seen) == 1
    assert Places().user_index(seen[:1]) is None
