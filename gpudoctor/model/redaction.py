"""Secrets are masked before they reach a sign, a report or a recording; in the user's process, too."""

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
