"""FAIL008 nccl-setup-failed."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class NcclSetupFailed(LogCheck):
    """NCCL could not connect the GPUs.

    What it finds:
        A job that died in NCCL itself:
        - a system call or a socket
        - InfiniBand
        - shared memory
        - mixed versions
        - an invalid use of the communicator
        - two ranks that use one GPU
    Why it hurts:
        All ranks die, and PyTorch prints one generic sentence for many reasons.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Plugins that NCCL does not find are normal. An error of NCCL after an error of a rank is a consequence.
    Remedies:
        Read the first NCCL WARN line; choose the interface that works.
    References:
        - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
        - https://github.com/NVIDIA/nccl-tests/issues/166
    """

    code = Code("FAIL008")
    name = "nccl-setup-failed"
    log_messages_file = "collective_messages.toml"
