"""Lines that show that a training goes on: bars, steps, epochs."""

import re

_BAR = re.compile(r"(\d{1,9})/(\d{1,9}|\?) \[\d+:\d\d")
_STEP = re.compile(
    r"""(?ix)(?<![a-z]) (?:global_?\s?)? (?:step|iter(?:ation)?|itr|batch|update|tick)s? ['"]?
    \s{0,8} [:=\#\[(]{0,3} \s{0,8} (\d{1,10}) (?![\d.]{0,20}\s{0,4}(?:ms|s/|sec|it/s|gb|mb))"""
)
_TABLE = re.compile(r"^\|\s+(?:total_timesteps|n_updates|iterations)\s+\|\s+(\d{1,10})\s+\|$")
"""A row of the table that RL libraries print: its other rows have the losses."""
_PLAIN = re.compile(
    r"(?i)^(?:(?:step|iter(?:ation)?|epoch)[ :#]+)?(\d{1,9})[:,]?[ \t]+-?\d{1,6}\.\d{2,}"
    r"(?:[ \t]+[\d.e+-]{1,20}){0,8}$"
)
"""A step and a number behind it, without a name."""
_EPOCH = re.compile(r"(?i)\bepoch['\"]?\s{0,8}[:=\[(]?\s{0,8}[\[(]?\s{0,8}(\d{1,6}(?:\.\d+)?)")
_COUNTED = re.compile(r"\s*(\d{1,6})/\d{1,6}\s")
"""An epoch of so many, at the beginning of a line."""
_VALUE = re.compile(
    r"(?i)loss|\blr\b|\bval\b[ =:|]{1,4}\d|it/s|s/it|samples/s|tokens/s|grad_norm|acc(?:uracy)?(?![a-z])|"
    r"sec/tick|throughput|elapsed|tflops|\beta\b"
)
_OTHER_WORK = re.compile(
    r"(?i)loading|download|\bmap\b|tokeniz|generating|resolving|fetching|filter|saving|examples/s|"
    r"\bfiles/s|building|warm-?up|collecting|tracked_stats|B/s\]|extracting|checkpoint shards|retry|attempt"
)
_RESULT = re.compile(r"(?i)\b(?:loss|acc(?:uracy)?|ppl|perplexity|reward|score)\b\W{1,4}-?\d{1,9}\.\d")
_STOPPED = r"\"key\": ?\"run_stop\".{1,400}\"status\": ?\"success\""
"""How MLPerf's logger says that a training is complete."""
_DONE = re.compile(
    r"(?i)training (?:is )?(?:complete|finished|done|ended)|train(?:ing)? completed|finished training|"
    r"train_runtime|`?Trainer\.fit`? stopped|training (?:has )?(?:successfully )?(?:completed|finished)|"
    r"(?:end|done|completed) (?:of )?training|"
    r"done training|job (?:completed|finished) successfully|All done|(?<!\d)\d{1,9} epochs completed in|"
    r"saved (?:the )?final (?:model|checkpoint|weights)|"
    r"finished (?:all )?\d{1,9} (?:steps|epochs|iterations|updates)|reached max_?steps|"
    r"训练(?:已)?(?:结束|完成|完毕)|" + _STOPPED
)
_DONE_BY_LIBRARY = re.compile(r"train_runtime|`?Trainer\.fit`? stopped|" + _STOPPED)


def step_of(line: str) -> float | None:
    """The step or epoch that a line of progress names; None for every other line."""
    bar = _BAR.search(line)
    if bar is not None:
        return None if _OTHER_WORK.search(line) else float(bar[1])
    if not _VALUE.search(line):
        plain = _TABLE.match(line.strip()) or _PLAIN.match(line.strip())
        return float(plain[1]) if plain else None
    found = _STEP.search(line) or _EPOCH.search(line)
    return float(found[1]) if found and not _OTHER_WORK.search(line[: found.start()]) else None


def moment_of(line: str, step: float) -> float:
    """A step that `step_of` gave, with its epoch: many count anew in each, or show only its last step."""
    epoch = _EPOCH.search(line) or _COUNTED.match(line)
    return step + 1e10 * float(epoch[1]) if epoch else step


def has_result(line: str) -> bool:
    """Whether a line gives the value of a loss or of a measure."""
    return _RESULT.search(line) is not None


def whole_step(line: str) -> int | None:
    """The number of a step, for people; None where the line has an epoch alone."""
    bar = _BAR.search(line)
    if bar is not None:
        return None if _OTHER_WORK.search(line) else int(bar[1])
    found = _STEP.search(line) if _VALUE.search(line) else None
    return int(found[1]) if found else None


def says_done(line: str) -> bool:
    """Whether the program says that its training is complete."""
    return _DONE.search(line) is not None


def surely_done(line: str) -> bool:
    """Whether these are words of the program itself: a job script may echo the others behind a failure."""
    return _DONE_BY_LIBRARY.search(line) is not None


DONE_CUES = (
    "complete",
    "train_runtime",
    "finished",
    "stopped",
    "done",
    "ended",
    "successfully",
    "end of ",
    "max_steps",
    "saved ",
    "训练",
    '"run_stop"',
)
"""What lines hold that say so, in small letters."""
