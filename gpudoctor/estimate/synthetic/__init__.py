"""A synthetic job: a training program of its own, written from a model's configuration, on random weights."""

from gpudoctor.estimate.synthetic.feasibility import Synthetic, plan
from gpudoctor.estimate.synthetic.local_device import RunPlace
from gpudoctor.estimate.synthetic.write_program import write

__all__ = ["RunPlace", "Synthetic", "plan", "write"]
