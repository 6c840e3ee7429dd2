"""Secrets are masked before they reach a sign, a report or a recording.

The definition is in the probe's folder, for it runs in the user's process too: `gpudoctor.probe.wire.masking`.
"""

from gpudoctor.probe.wire.masking import (
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
    "LONGEST_WORD", "MASK", "is_secret_entry", "is_secret_name", "mask_arguments", "mask_cut", "mask_text",
    "mask_value",
]  # fmt: skip
