"""A training that goes on with numbers that are not finite has not failed: the verdict says that it goes on."""

import pytest
from command import gpudoctor

STEPS = "".join(f"step {n} | loss {4 - n / 100:.3f} | 91.2 ms\n" for n in range(1, 60))
BAD = "".join(f"step {n} | loss nan | 90.8 ms\n" for n in range(60, 90))


@pytest.mark.parametrize(
    ("end", "says", "breaks"),
    [
        ("", "The training goes on with nan loss since line 60", "the result is unreliable"),
        ("Traceback (most recent call last):\n  File \"/j/t.py\", line 9, in <module>\n    go()\nValueError: no\n",
         "The job failed", "the run died"),
    ],
)  # fmt: skip
def test_what_goes_on_has_not_failed(tmp_path, end, says, breaks):
    (tmp_path / "job.log").write_text(STEPS + BAD + end)
    done = gpudoctor("autopsy", "job.log", "--verbose", cwd=tmp_path)
    said = " ".join(done.stdout.split())
    assert says in said and breaks in said, done.stdout
