"""Which frame is whose."""

import sys

from gpudoctor.probe.places import Places


def frames(path):
    """The frame of a function of that file, and the one that called it."""
    space = {"look": lambda: sys._getframe(1)}
    exec(compile("def count():\n    return look()\n", path, "exec"), space)
    return space["count"](), sys._getframe()


def test_a_frame_that_measures_the_program_is_found_below_the_users():
    counter, user = frames("/env/lib/python3.11/site-packages/torch/utils/flop_counter.py")
    assert Places().instrument(counter, user) is counter


def test_a_library_is_no_instrument():
    function, user = frames("/env/lib/python3.11/site-packages/torch/nn/functional.py")
    assert Places().instrument(function, user) is None


def test_what_lies_outside_the_users_frame_does_not_count():
    counter, _ = frames("/env/lib/python3.11/site-packages/torch/utils/flop_counter.py")
    assert Places().instrument(counter, counter) is None
