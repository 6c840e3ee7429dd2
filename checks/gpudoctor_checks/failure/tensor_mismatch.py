"""FAIL013 tensor-mismatch."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class TensorMismatch(LogCheck):
    """Tensors of different type, device or shape met.

    What it finds:
        A job that died at an operation whose tensors differ in type, device or shape. Or they are still on the
        meta device.
    Why it hurts:
        The step cannot be computed.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A mismatch while a checkpoint is loaded belongs to checkpoint-misfit.
    Remedies:
        Convert or pad the tensor at the line that the traceback names.
    References:
        - https://github.com/huggingface/trl/issues/1152
        - https://github.com/huggingface/peft/issues/1515
    """

    code = Code("FAIL013")
    name = "tensor-mismatch"
    log_messages_file = "program_messages.toml"
