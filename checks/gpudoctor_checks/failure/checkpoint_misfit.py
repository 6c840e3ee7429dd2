"""FAIL014 checkpoint-misfit."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class CheckpointMisfit(LogCheck):
    """A checkpoint could not be loaded or saved.

    What it finds:
        A job that died because of its checkpoint:
        - it does not fit the model
        - it is damaged, or is a pointer of git-lfs
        - it contains more than tensors
        - it was saved for another number of ranks
    Why it hurts:
        The run cannot resume, or loses what it had trained.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Keys that are reported and ignored are not a death.
    Remedies:
        Load what fits; get a damaged file again.
    References:
        - https://github.com/huggingface/transformers/issues/34631
        - https://github.com/axolotl-ai-cloud/axolotl/issues/933
    """

    code = Code("FAIL014")
    name = "checkpoint-misfit"
    log_messages_file = "program_messages.toml"
