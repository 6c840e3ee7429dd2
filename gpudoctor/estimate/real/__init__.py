"""The real model of a job: transformers' class, PEFT's adapters, a batch. Needs the extra `train`."""

from gpudoctor.estimate.real.build import BuiltJob, build
from gpudoctor.estimate.real.config import hf_config

__all__ = ["BuiltJob", "build", "hf_config"]
