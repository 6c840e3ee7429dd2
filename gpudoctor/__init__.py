"""gpudoctor: a command-line doctor for deep-learning training on GPUs."""

__version__ = "0.1.0"
