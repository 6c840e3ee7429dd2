"""The first cause that is read in a text, and parts of such texts."""

from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.cli import main
from gpudoctor.engine.registry import load_registry
from gpudoctor.vitals.job_log import read_job_log

MESSAGES = tuple(load_registry().log_messages())
HEAD = "Traceback (most recent call last):\n"
FRAME = '  File "/work/fit.py", line 12, in main\n    fit(model)\n'


def cause_of(text, **how):
    """The verdict on a text; None for no failure."""
    data = text.encode() if isinstance(text, str) else text
    return first_cause(read_job_log(["job.out"], MESSAGES, contents={"job.out": data}, **how))


def root_of(text, **how):
    """The event that is the first cause; None where there is none, "FAIL018" where only consequences are."""
    cause = cause_of(text, **how)
    return None if cause is None else cause.root or "FAIL018"


def named(text, **how):
    """The code of the first cause."""
    root = root_of(text, **how)
    return getattr(root, "code", root)


def raised(line):
    """A traceback that ends in a line."""
    return HEAD + FRAME + line + "\n"


def steps(first, last):
    """Lines of a training."""
    return "".join(f"[2024-03-01 10:00:00 INFO] step {n}/900 loss: 0.31 lr: 0.01\n" for n in range(first, last))


def written(path, content):
    """The path, once this stands there."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def autopsy(capsys, *names):
    """The exit code and the words of the report."""
    code = main(["autopsy", *map(str, names)])
    return code, " ".join(capsys.readouterr().out.split())
