"""Measuring: the model with random weights, three real steps in a child process, bytes by instant."""

from gpudoctor.estimate.measure.compare import Compared, Comparison, compare
from gpudoctor.estimate.measure.launch import measure
from gpudoctor.estimate.measure.result import Ending, Machine, Measurement, Step

__all__ = ["Compared", "Comparison", "Ending", "Machine", "Measurement", "Step", "compare", "measure"]
