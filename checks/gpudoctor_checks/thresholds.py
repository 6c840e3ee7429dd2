"""Limits that several checks share."""

from gpudoctor.model import Threshold

EVENTS = Threshold(
    "events",
    3,
    "{times}",
    "convention: once or twice is not a period, and a short run ends with one",
    "With fewer of them in a recording, gpudoctor does not price them.",
)
COMPUTE_SHARE = Threshold(
    "compute_share",
    0.3,
    "1",
    "train-doctor's share for torch.compile: 0.3",
    "If forward and backward take less of a recorded run, faster ones do not matter.",
)
PROFILED_STEPS = Threshold(
    "measurement_steps",
    50,
    "{step}",
    "torch.profiler's recipe records two cycles of 5 to 10 steps; five times that",
    "A loop known to end within this many steps is a measurement, not a training.",
)
GROWN_BYTES = Threshold(
    "grown",
    16777216,
    "B",
    "allocators reserve blocks of 2 to 20 MiB, and an idle process varies by some MiB",
    "Less growth over the run is not a finding.",
)
DAY = Threshold(
    "day",
    86400,
    "s",
    "convention: out of memory within the run or a day is an error",
    "Memory that is full within this time is an error.",
)
GROWN_TENFOLD = Threshold(
    "grown",
    10.0,
    "1",
    "convention: growth by ten",
    "A loss or gradient norm that grew by this factor before indicates too high a learning rate.",
)
FORWARDS = Threshold(
    "forwards",
    20,
    "{steps}",
    "convention: correctness counts in events",
    "Fewer forward passes in the wrong mode in a recording are not judged.",
)
