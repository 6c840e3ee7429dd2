"""Property tests: rubbish in, no exception out."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.model import Unavailable
from gpudoctor.model.signs.job import Environment
from gpudoctor.vitals.job import job_environment, read_job

WORDS = [
    "python", "torchrun", "train.py", "--nproc_per_node", "srun", "bash -c", "export", "A=", "A+=(", ")", "(", "{", "}",
    "$A", "${A:-", "${A[@]}", "$((", "))", "$(", "`", "'", '"', "\\", "\n", "\\\n", ";", "&&", "||", "|", "&", "<<EOF",
    "EOF", "<", ">", "2>&1", "#", "#SBATCH", "#SBATCH -t", "--gres=gpu:", "--mem=", "if", "fi", "case", "esac", "for",
    "in", "do", "done", " ", "\t", "-", "--", "=", "9" * 40, "é", "\0", "mpirun -np", "env", "uv run", "docker run", "-m",
]  # fmt: skip


def read(data, name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(data)
        try:
            read_job(None, {"A": "1"}, [path])
            job_environment(path, Environment(variables={"A": "$A"}))
        except Unavailable as error:
            assert str(path) in str(error)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_shell_like_rubbish(words):
    read(" ".join(words).encode(), "job.sh")
    read("".join(words).encode(), "job.sh")


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=400))
def test_bytes(data):
    read(data, "job.sbatch")


@settings(max_examples=40, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.text(alphabet="abk:-[]{}&*!|>\n \"'%@0", max_size=200).map(str.encode)))
def test_yaml(data):
    read(data, "job.yaml")
