"""Limits that several checks share."""

from gpudoctor.model import Threshold

EVENTS = Threshold(
    name="events",
    default=3,
    unit="{times}",
    source="convention: once or twice is not a period, and a short run ends with one",
    meaning="With fewer of them in a recording, gpudoctor does not price them.",
)
COMPUTE_SHARE = Threshold(
    name="compute_share",
    default=0.3,
    unit="1",
    source="train-doctor's share for torch.compile: 0.3",
    meaning="If forward and backward take less of a recorded run, faster ones do not matter.",
)
PROFILED_STEPS = Threshold(
    name="measurement_steps",
    default=50,
    unit="{step}",
    source="torch.profiler's recipe records two cycles of 5 to 10 steps; five times that",
    meaning="A loop known to end within this many steps is a measurement, not a training.",
)
GROWN_BYTES = Threshold(
    name="grown",
    default=16777216,
    unit="B",
    source="allocators reserve blocks of 2 to 20 MiB, and an idle process varies by some MiB",
    meaning="Less growth over the run is not a finding.",
)
DAY = Threshold(
    name="day",
    default=86400,
    unit="s",
    source="convention: out of memory within the run or a day is an error",
    meaning="Memory that is full within this time is an error.",
)
GROWN_TENFOLD = Threshold(
    name="grown",
    default=10.0,
    unit="1",
    source="convention: growth by ten",
    meaning="A loss or gradient norm that grew by this factor before indicates too high a learning rate.",
)
FORWARDS = Threshold(
    name="forwards",
    default=20,
    unit="{steps}",
    source="convention: correctness counts in events",
    meaning="Fewer forward passes in the wrong mode in a recording are not judged.",
)
