"""FAIL017 compile-failed."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class CompileFailed(LogCheck):
    """A compiler of the framework failed.

    What it finds:
        A job that died in torch.compile, Triton or ptxas:
        - no compiler
        - a kernel that needs too much of the GPU
        - a graph that the backend does not support
    Why it hurts:
        The first step fails, although the model trains without the compiler.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Graph breaks and warnings of the compiler are not deaths.
    Remedies:
        Install the compiler, or train without it.
    References:
        - https://pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    """

    code = Code("FAIL017")
    name = "compile-failed"
    log_messages_file = "cuda_messages.toml"
