"""FAIL010 fork-after-cuda."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class ForkAfterCuda(LogCheck):
    """CUDA was used in a forked process.

    What it finds:
        A job that died because a loader worker or another forked child used CUDA after its parent had
        started it.
    Why it hurts:
        The first batch never comes.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Children that are spawned may use CUDA.
    Remedies:
        Spawn the children, or keep CUDA out of them.
    References:
        - https://github.com/pytorch/pytorch/issues/40403
        - https://pytorch.org/docs/stable/notes/multiprocessing.html
    """

    code = Code("FAIL010")
    name = "fork-after-cuda"
    log_messages_file = "cuda_messages.toml"
