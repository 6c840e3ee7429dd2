"""The job scripts of examples/, run with stubs in the place of gpudoctor, srun and torchrun."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SLURM, TORCHRUN, KUBERNETES = (
    EXAMPLES / "slurm/train.sbatch",
    EXAMPLES / "torchrun/launch.sh",
    EXAMPLES / "kubernetes/train-job.yaml",
)

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


def kubernetes_script():
    """The init container's command, cut out of the manifest."""
    import yaml

    manifest = yaml.safe_load(KUBERNETES.read_text(encoding="utf-8"))
    pod = manifest["spec"]["template"]["spec"]
    [preflight], [train] = pod["initContainers"], pod["containers"]
    assert preflight["image"] == train["image"]
    assert preflight["resources"] == train["resources"]
    assert preflight["volumeMounts"] == train["volumeMounts"]
    return preflight["args"][0] + "\necho TRAINING\n"


def launch(tmp_path, script, code, *, strict):
    """Run a job script with a doctor that exits with a code; None for no doctor at all."""
    stubs = {
        "srun": '[ "$1" = torchrun ] || shift; exec "$@"',
        "torchrun": "echo TRAINING",
        "hostname": "echo node-1",
    }
    if code is not None:
        stubs["gpudoctor"] = f'echo "doctor: $*"; exit {code}'
    for name, body in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    for tool in ("bash", "dirname", "cat"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    text = kubernetes_script() if script is KUBERNETES else script.read_text(encoding="utf-8")
    command = ["bash", "-c", text, str(script)]
    environment = {
        "PATH": str(tmp_path),
        "SLURM_SUBMIT_DIR": str(EXAMPLES.parent),
        "STRICT": "1" if strict else "",
    }
    if os.environ.get("HOME"):
        environment["HOME"] = os.environ["HOME"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("script", [SLURM, TORCHRUN, KUBERNETES], ids=lambda path: path.name)
@pytest.mark.parametrize(
    ("code", "strict", "trains"),
    [(0, False, True), (0, True, True), (1, False, False), (1, True, False), (3, False, True), (3, True, False),
     (None, False, True), (None, True, False)],
)  # fmt: skip
def test_the_preflight_decides(tmp_path, script, code, strict, trains):
    result = launch(tmp_path, script, code, strict=strict)
    assert ("TRAINING" in result.stdout) is trains
    assert (result.returncode == 0) is trains
    assert ("pre-flight:" in result.stderr) is (code != 0)
    if code is not None:
        assert "doctor: check --profile" in result.stdout
        assert ("--strict" in result.stdout) is strict
