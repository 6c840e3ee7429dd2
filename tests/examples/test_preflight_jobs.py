"""The job scripts of examples/preflight, run with stubs in the place of gpudoctor, srun, sbatch and torchrun."""

import shutil
import subprocess
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "preflight"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


def run(tmp_path, script, *arguments, code=0, bad="", **variables):
    """Run a script with a doctor that exits with a code and names bad nodes."""
    stubs = {
        "srun": 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"',
        "torchrun": 'case "$*" in *"-m gpudoctor"*) exec gpudoctor preflight;; *) echo "TRAINING $*";; esac',
        "scontrol": "echo node0; echo node1",
        "sbatch": 'echo "SBATCH $*"',
        "ssh": 'shift 2; host=$1; shift; echo "SSH $host"; bash -c "$*"',
        "timeout": 'shift; exec "$@"',
        "gpudoctor": f"""
            for word; do
                case "$last" in
                    --exclude-to) printf '%s' '{bad}' > "$word";;
                    --output) echo '{{}}' > "$word";;
                esac
                last=$word
            done
            echo "DOCTOR $*"
            exit {code}""",
    }
    places = tmp_path / "bin"
    places.mkdir()
    for name, body in stubs.items():
        (places / name).write_text(f"#!/bin/bash\n{body}\n")
        (places / name).chmod(0o755)
    for tool in ("bash", "cat", "head", "mkdir", "cp"):
        (places / tool).symlink_to(str(shutil.which(tool)))
    text = script.read_text(encoding="utf-8").replace("/var/lib/gpudoctor", f"'{tmp_path}/state'")
    environment = {
        "PATH": str(places), "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[0-1]",
        "SLURM_JOB_NUM_NODES": "2",
    } | variables  # fmt: skip
    return subprocess.run(
        ["bash", "-c", text, str(script), *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def test_slurm_trains_on_good_nodes(tmp_path):
    done = run(tmp_path, EXAMPLES / "slurm.sbatch")
    assert done.returncode == 0 and "TRAINING" in done.stdout and "SBATCH" not in done.stdout


def test_slurm_submits_the_job_again_without_the_bad_nodes(tmp_path):
    done = run(tmp_path, EXAMPLES / "slurm.sbatch", code=1, bad="node1", BAD="node9")
    assert done.returncode == 1 and "TRAINING" not in done.stdout
    assert "SBATCH --exclude=node9,node1 --export=ALL,ATTEMPT=2,BAD=node9,node1" in done.stdout


def test_slurm_gives_up_after_three_attempts_and_without_a_name(tmp_path):
    done = run(tmp_path, EXAMPLES / "slurm.sbatch", code=1, bad="node1", ATTEMPT="3")
    assert done.returncode == 1 and "SBATCH" not in done.stdout
    shutil.rmtree(tmp_path / "bin")
    done = run(tmp_path, EXAMPLES / "slurm.sbatch", code=1)
    assert done.returncode == 1 and "leaving a node out does not help" in done.stderr


@pytest.mark.parametrize(("strict", "trains"), [("", True), ("1", False)])
def test_slurm_with_a_doctor_that_cannot_measure(tmp_path, strict, trains):
    done = run(tmp_path, EXAMPLES / "slurm.sbatch", code=3, STRICT=strict)
    assert ("TRAINING" in done.stdout) is trains


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 1), (3, 0)])
def test_the_prolog_drains_for_findings_alone_and_keeps_a_first_good_baseline(tmp_path, code, ends):
    done = run(tmp_path, EXAMPLES / "slurm-prolog.sh", code=code, RANK="3", WORLD_SIZE="8")
    assert done.returncode == ends
    assert (tmp_path / "state" / "baseline.json").exists() is (code == 0)


@pytest.mark.parametrize(("code", "trains"), [(0, True), (1, False), (3, True)])
def test_torchrun_starts_the_training_after_it(tmp_path, code, trains):
    done = run(tmp_path, EXAMPLES / "torchrun.sh", code=code)
    assert ("TRAINING --standalone --nproc-per-node=1 train.py" in done.stdout) is trains


def test_each_host_gets_its_rank_and_the_code_is_that_of_rank_0(tmp_path):
    done = run(tmp_path, EXAMPLES / "hosts.sh", "a", "b", "c", code=1)
    assert done.returncode == 1
    for rank, host in enumerate("abc"):
        assert f"SSH {host}" in done.stdout
        assert f"DOCTOR preflight --rank {rank} --world 3 --head a --port 29400" in done.stdout
    shutil.rmtree(tmp_path / "bin")
    assert run(tmp_path, EXAMPLES / "hosts.sh").returncode == 2


def test_the_jobset_measures_with_what_the_training_gets():
    import yaml

    manifest = yaml.safe_load((EXAMPLES / "jobset.yaml").read_text(encoding="utf-8"))
    job = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = job["template"]["spec"]
    [preflight], [train] = pod["initContainers"], pod["containers"]
    assert preflight["image"] == train["image"] and preflight["resources"] == train["resources"]
    assert f"--world {job['parallelism']}" in preflight["args"][0]
