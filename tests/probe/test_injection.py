"""The way in: what an interpreter of the user's sees of us, and which ones we stay out of."""

import json
import os
import subprocess
import sys

import frames
import pytest
from probed import PREFIX, PROBE, environment, run_plain, run_script

TRAIN = """
import sys
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data(), batch_size=8):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
torch.save(model.state_dict(), "/dev/null")
"""
SEEN = """
import sys
print(sys.path, [name for name in sys.modules if name.startswith("gpudoctor")])
"""


def python(folder, *words, **variables):
    done = subprocess.run(
        [sys.executable, *words],
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_training_is_reached_and_sees_its_own_path(tmp_path):
    pytest.importorskip("torch")
    looks = "import importlib.util\nassert importlib.util.find_spec('torch')\n"  # as transformers and datasets do
    run = run_script(tmp_path, TRAIN + SEEN, prefix=looks + PREFIX, start=True, GPUDOCTOR_SETTINGS="{not json")
    assert len(run.rank.steps("index")) == 8
    assert run.rank.one("end")["clean"]
    # The hooks on torch itself are there, though Python counts it as not yet imported when they go in.
    assert "torch.save" in [site["what"] for site in run.rank.of("site")]
    assert str(PROBE) not in run.result.stdout
    script = tmp_path / "sees.py"
    script.write_text(SEEN)
    assert run_plain(tmp_path, script).stdout == run.result.stdout


def test_nothing_is_loaded_before_torch_is(tmp_path):
    looks = "import sys; print([m for m in sys.modules if 'gpudoctor' in m], type(sys.meta_path[0]).__name__)"
    assert python(tmp_path, "-c", looks) == "[] Waiting\n"
    assert python(tmp_path, "-c", looks, GPUDOCTOR_DISABLE="1") != "[] Waiting\n"
    assert not list(tmp_path.glob("*"))


def test_the_users_sitecustomize_runs_too(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.of_the_user = __file__\n")
    path = os.pathsep.join([str(PROBE / "site"), str(own)])
    said = python(
        tmp_path, "-c", "import sys, sitecustomize; print(sys.of_the_user, sitecustomize.__file__)", PYTHONPATH=path
    )
    assert said.split() == [str(own / "sitecustomize.py")] * 2


def test_a_failing_sitecustomize_fails_as_without_us(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import of_nothing\n")
    words = [sys.executable, "-c", "print('goes on')"]
    variables = environment(tmp_path, PYTHONPATH=os.pathsep.join([str(PROBE / "site"), str(own)]))
    ours = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    variables["PYTHONPATH"] = str(own)
    theirs = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert (ours.stdout, ours.stderr, ours.returncode) == (theirs.stdout, theirs.stderr, theirs.returncode)
    assert "of_nothing" in theirs.stderr


@pytest.mark.parametrize(
    "words", [["-c", "from multiprocessing.resource_tracker import main"], ["-m", "torch._inductor.compile_worker"]]
)
def test_helper_processes_are_left_alone(words):
    sys.path.insert(0, str(PROBE.parent.parent))
    from gpudoctor.probe import boot

    before = list(sys.meta_path)
    original = sys.orig_argv[:]
    sys.orig_argv[:] = ["python", *words]
    try:
        boot.boot(str(PROBE))
        assert sys.meta_path == before
    finally:
        sys.orig_argv[:] = original
        sys.meta_path[:] = before


def test_secrets_are_masked(tmp_path):
    pytest.importorskip("torch")
    words = "--api-key", "abcd1234", "--token=xyz98765", "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", "--lr=1"
    run = run_script(tmp_path, "raise ValueError('--api-key abcd1234')", *words, code=1)
    assert run.rank.one("exception")["message"] == "--api-key ***"
    written = b"".join(path.read_bytes() for path in run.folder.iterdir())
    assert not [word for word in (b"abcd1234", b"xyz98765", b"hf_kJs") if word in written]


def test_the_live_file_says_where_the_rank_stands_and_goes(tmp_path):
    pytest.importorskip("torch")
    run = run_script(
        tmp_path,
        """
        import glob, json, time
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = data(8).tensors
        end, seen = time.time() + 20, None
        while time.time() < end and seen is None:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            for path in glob.glob("recording/live-x-*.json"):
                seen = json.load(open(path))
        print(json.dumps(seen))
        """,
    )
    live = json.loads(run.result.stdout)
    assert live["step"] > 0
    assert {"backward", "forward", "data_wait"} <= set(live["phases"])
    assert not list(run.folder.glob("live-*"))
    assert frames.told(run.folder)[0].one("end")
