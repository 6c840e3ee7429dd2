"""FAIL012 reducer-misuse."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class ReducerMisuse(LogCheck):
    """DDP's reducer refused the graph.

    What it finds:
        A job that died because a parameter was used twice in a backward under data parallelism, or not at
        all.
    Why it hurts:
        Training with several ranks fails, although one process trains.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        One process alone never shows it.
    Remedies:
        Use non-reentrant checkpointing; use every parameter, or tell DDP that some are unused.
    References:
        - https://github.com/pytorch/pytorch/issues/57473
        - https://github.com/huggingface/accelerate/issues/389
    """

    code = Code("FAIL012")
    name = "reducer-misuse"
    log_messages_file = "collective_messages.toml"
