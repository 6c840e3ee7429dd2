"""FAIL011 backward-failed."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class BackwardFailed(LogCheck):
    """The backward pass could not run.

    What it finds:
        A job that died in autograd:
        - a loss without a gradient
        - a tensor changed in place
        - a second backward through one graph
        - a checkpointed block that computed something else the second time
    Why it hurts:
        Not a single step is trained.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A message that was caught and followed by steps is not a death.
    Remedies:
        Make the loss depend on a trainable parameter; keep the graph as the backward needs it.
    References:
        - https://pytorch.org/docs/stable/notes/autograd.html
        - https://github.com/huggingface/transformers/issues/42489
    """

    code = Code("FAIL011")
    name = "backward-failed"
    log_messages_file = "program_messages.toml"
