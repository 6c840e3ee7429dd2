"""The analytic model: every instant of a run as a sum of lines, by counting tensors. No torch."""

from gpudoctor.estimate.analytic.inference import inference_instants
from gpudoctor.estimate.analytic.training import training_instants

__all__ = ["inference_instants", "training_instants"]
