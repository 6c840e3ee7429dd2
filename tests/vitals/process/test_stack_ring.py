"""What a window of looks keeps."""

from gpudoctor.vitals.process.classify_stack import ClassifiedStack
from gpudoctor.vitals.process.stack_sampler import StackRing


def ring_of(*phases: str) -> StackRing:
    ring = StackRing(length=120.0)
    for t, phase in enumerate(phases):
        ring.add(float(t), ClassifiedStack(phase=phase, kind="", via="", user=None, text=""), ())
    ring.fail(0.5)
    ring.forget(float(len(phases)))
    return ring


def counted(ring: StackRing) -> dict[str, int]:
    return {place.phase: place.count for place in ring.places()}


def test_a_start_that_is_over_is_no_share_of_the_loop():
    ring = ring_of(*["start"] * 20, "forward", "start", *["forward", "backward"] * 5)
    assert counted(ring) == {"forward": 5, "backward": 5}
    assert not ring.failures  # they were the start's, too


def test_a_start_that_goes_on_stays():
    assert counted(ring_of(*["start"] * 20, *["forward"] * 9)) == {"start": 20, "forward": 9}


def test_an_import_in_the_midst_of_training_is_a_part_of_it():
    phases = [*["forward"] * 20, "start", *["forward"] * 20]
    assert counted(ring_of(*phases)) == {"forward": 40, "start": 1}


def test_what_is_older_than_the_window_goes():
    ring = ring_of(*["forward"] * 10)
    ring.forget(125.0)
    assert counted(ring) == {"forward": 5}
