"""A fake NVML at the C boundary: the real binding, ctypes and the child process run against it."""

from fake_nvml.build import compiler, library_folder
from fake_nvml.machine import Machine
from fake_nvml.scenarios import SCENARIOS, Scenario

__all__ = ["SCENARIOS", "Machine", "Scenario", "compiler", "library_folder"]
