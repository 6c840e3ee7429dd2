"""CFG010 settings-rejected."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class SettingsRejected(LogCheck):
    """A library rejected the settings.

    What it finds:
        A job that died because a library tests its settings at the start:
        - sizes that do not divide
        - a precision that the GPU lacks
        - an evaluation strategy that does not fit the saving
        - a wrong command line
    Why it hurts:
        The job waits in the queue and ends in its first seconds.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Settings that a library changes by itself with a warning are not a death.
    Remedies:
        Change the setting that the message names.
    References:
        - https://www.deepspeed.ai/docs/config-json/
        - https://huggingface.co/docs/transformers/main_classes/trainer
    """

    code = Code("CFG010")
    name = "settings-rejected"
    log_messages_file = "log_messages.toml"
