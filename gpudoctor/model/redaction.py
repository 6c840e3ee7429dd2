"""Secrets are masked before they reach a sign, a report or a recording; in the user's process, too."""

from gpudoctor.probe.wire.masking import LONGEST_WORD as LONGEST_WORD
from gpudoctor.probe.wire.masking import MASK as MASK
from gpudoctor.probe.wire.masking import is_secret_entry as is_secret_entry
from gpudoctor.probe.wire.masking import is_secret_name as is_secret_name
from gpudoctor.probe.wire.masking import mask_arguments as mask_arguments
from gpudoctor.probe.wire.masking import mask_cut as mask_cut
from gpudoctor.probe.wire.masking import mask_text as mask_text
from gpudoctor.probe.wire.masking import mask_value as mask_value
