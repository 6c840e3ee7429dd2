"""The real model of a job: transformers' class, PEFT's adapters, a batch. Needs the extra `train`."""

from gpudoctor.estimate.real.build import Built, build
from gpudoctor.estimate.real.config import hf_config

__all__ = ["Built", "build", "hf_config"]
