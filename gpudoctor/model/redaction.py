"""Secrets are masked before they reach a sign, a report or a recording.

The definition is the probe's, which runs without gpudoctor in the user's process: `gpudoctor.probe.masking`.
"""

from gpudoctor.probe.masking import (
    LONGEST_WORD,
    MASK,
    is_secret_entry,
    is_secret_name,
    mask_arguments,
    mask_cut,
    mask_text,
    mask_value,
)

__all__ = [
    "LONGEST_WORD",
    "MASK",
    "is_secret_entry",
    "is_secret_name",
    "mask_arguments",
    "mask_cut",
    "mask_text",
    "mask_value",
]
