"""FAIL012 reducer-misuse."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code, LogMessage


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
    log_messages = (
        LogMessage(
            kind="ready-twice",
            cue=("mark a variable ready only once", "marked as ready twice", "already been reduced"),
            pattern="mark a variable ready only once|marked as ready twice|has already been reduced",
            text="A parameter was used twice in one backward under data parallelism.",
            source="https://github.com/huggingface/accelerate/issues/389",
        ),
        LogMessage(
            kind="unused-parameters",
            cue=(
                "not used in producing the loss",
                "finished reduction in the prior iteration",
                "not used in producing loss",
                "not used in the loss",
            ),
            pattern="were not used in producing the loss|"
            "finished reduction in the prior iteration|were not used in (?:producing|the) loss",
            text="Some parameters took no part in the loss, and DDP waits for their gradients.",
            source="https://github.com/pytorch/pytorch/issues/57473",
        ),
        LogMessage(
            kind="other-model",
            cue="expects same model across all ranks",
            pattern=r"DDP expects same model across all ranks, but "
            r"Rank (?P<one>\d{1,6}) has (?P<own>\d{1,9}) params, "
            r"while rank (?P<other>\d{1,6}) has inconsistent (?P<theirs>\d{1,9}) params",
            text="The ranks made different models: rank {one} has {own} parameters, rank {other} has {theirs}.",
            source="torch/csrc/distributed/c10d/reducer.cpp",
        ),
        LogMessage(
            kind="other-model",
            cue="appears not to match",
            pattern=r"params\[\d+\] in this process with sizes .{1,80} appears not to match sizes of the same "
            "param",
            text="The ranks made different models: a parameter has another shape on another rank.",
            source="torch/csrc/distributed/c10d/reducer.cpp",
        ),
    )
