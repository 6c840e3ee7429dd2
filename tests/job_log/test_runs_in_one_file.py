"""Several runs in one file, runs that ended well after a failure, and exceptions that led to another one."""

import pytest
from log_causes import HEAD, named, raised, root_of, steps

from gpudoctor.cli import main

KILL = "slurmstepd: error: *** JOB 77 ON a1 CANCELLED AT 2025-01-01T10:00:00 DUE TO %s ***\n"
STEP = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
RUNTIME = "{'train_runtime': 8123.2, 'train_samples_per_second': 3.1, 'train_loss': 1.9, 'epoch': 1.0}\n"
LOSS = "{'loss': 2.1, 'grad_norm': 1.2, 'learning_rate': 2e-05, 'epoch': 0.%s}\n"
STOP = ':::MLLOG {"time_ms": 17, "key": "run_stop", "value": null, "metadata": {"lineno": 315, "status": "%s"}}\n'
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "23.69 GiB of which 1.11 GiB is free."
)


def at_module(line, path="/work/fit.py"):
    """A traceback from the first line of a script on."""
    return (
        f'{HEAD}  File "{path}", line 80, in <module>\n    run()\n  File "{path}", line 12, in run\n    go()\n{line}\n'
    )


@pytest.mark.parametrize("why", ["PREEMPTION", "TIME LIMIT", "NODE FAILURE"])
def test_a_job_that_was_queued_again_and_completed(why, tmp_path):
    killed = LOSS % 4 + LOSS % 5 + KILL % why + STEP
    assert named(tmp_path, killed) == "FAIL002"
    assert named(tmp_path, killed + LOSS % 6) == "FAIL002"  # a late line of the same run
    assert named(tmp_path, killed + "echo: training finished\n") == "FAIL002"
    assert named(tmp_path, killed + "loading the shards\n" + LOSS % 6 + RUNTIME) is None
    assert (
        named(
            tmp_path, killed + "loading the shards\n" + "".join(LOSS % n for n in "678") + RUNTIME + KILL % "TIME LIMIT"
        )
        is None
    )
    assert (
        named(tmp_path, killed + LOSS % 6 + LOSS % 7 + "training finished\n" + at_module("KeyError: 'a'")) == "FAIL001"
    )


def test_epochs_of_one_number_of_steps_are_steps(tmp_path):
    again = "".join(f"epoch {n}/9 step 500/500 loss 1.{n}\n" for n in range(3, 9))
    assert named(tmp_path, "epoch 2/9 step 500/500 loss 2.0\n" + KILL % "PREEMPTION" + again) is None


@pytest.mark.parametrize(
    "done", [STOP % "success", "Saved the final checkpoint to out/last.pt\n", "Training completed\n"]
)
def test_a_time_limit_behind_the_end_of_the_training(done, tmp_path):
    limit = KILL % "TIME LIMIT" + STEP + "srun: error: a1: task 0: Terminated\n"
    assert named(tmp_path, steps(0, 9) + done + "uploading\n" + limit) is None
    assert named(tmp_path, steps(0, 9) + done + steps(9, 12) + limit) == "FAIL002"
    assert named(tmp_path, steps(0, 9) + limit + done) == "FAIL002"
    assert named(tmp_path, steps(0, 9) + STOP % "aborted" + limit) == "FAIL002"
    assert named(tmp_path, steps(0, 9) + done + at_module(OOM)) == "MEM009"


def test_what_other_ranks_write_behind_the_end_of_the_training(tmp_path):
    stats = ':::MLLOG {"key": "tracked_stats", "value": {"throughput": 1.5, "iterations": %d}}\n'
    behind = "".join(stats % n for n in range(3, 9)) + "Node[0] Epoch[34] Validation-accuracy=0.759520\n"
    limit = KILL % "TIME LIMIT" + STEP
    assert named(tmp_path, steps(0, 9) + STOP % "success" + behind + limit) is None
    assert named(tmp_path, steps(0, 9) + STOP % "aborted" + behind + limit) == "FAIL002"
    assert named(tmp_path, steps(0, 9) + "Training completed\n" + behind + limit) == "FAIL002"


BEGIN = "reading the corpus\nmaking the network\n"


def test_the_last_run_in_a_file_is_judged(tmp_path):
    first = BEGIN + at_module("KeyError: 'width'")
    root = root_of(tmp_path, first + "reading another corpus\nmaking the network\n" + at_module(OOM))
    assert (root.code, root.line) == ("MEM009", 16)
    assert named(tmp_path, first + "reading another corpus\n" + steps(1, 3)) is None
    assert named(tmp_path, first + "reading another corpus\n") == "FAIL001"
    assert root_of(tmp_path, first + at_module(OOM)).line == 8  # at once: of two processes


@pytest.mark.parametrize("end", [at_module(OOM), steps(1, 3)])
def test_the_earlier_run_is_named_in_one_sentence(end, tmp_path, capsys):
    path = tmp_path / "job.out"
    path.write_text(at_module("KeyError: 'width'") + BEGIN + end, encoding="utf-8")
    main(["autopsy", str(path)])
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("The same file shows an earlier failure at line 6.") == 1 and "KeyError" not in printed


def test_ranks_that_print_without_their_names_are_no_runs(tmp_path):
    both = at_module("KeyError: 'width'") + "saving\nclosing\n" + at_module(OOM)
    assert named(tmp_path, both) == "MEM009"
    assert named(tmp_path, "world_size: 2\n" + both) == "FAIL001"
    launcher = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    assert named(tmp_path, both + launcher) == "FAIL001"
    assert named(tmp_path, "world_size: 2\n" + at_module("KeyError: 'a'") + steps(7, 9)) == "FAIL001"


def test_healthy_a_traceback_that_a_function_of_a_loader_printed_ends_no_run(tmp_path):
    assert named(tmp_path, raised("KeyError: 'width'") + BEGIN + at_module(OOM)) == "FAIL001"


def linked(inner, outer, link="During handling of the above exception, another exception occurred:"):
    return f"{HEAD}{inner}\n\n{link}\n\n{HEAD}{outer}\n"


def frame(path, code, exception):
    return f'  File "{path}", line 7, in work\n    {code}\n{exception}'


SCHEDULES = "ValueError: no schedule is called cosinee: choose one of cosine, linear, constant"
MADE = frame("/w/schedules.py", "return TABLE[name]", "KeyError: 'cosinee'")
HUB = "/env/lib/python3.11/site-packages/datasets/builder.py"


@pytest.mark.parametrize(
    ("inner", "outer", "first", "other"),
    [
        (MADE, frame("/w/schedules.py", "raise ValueError(text) from None", SCHEDULES), "ValueError", "KeyError"),
        (
            frame("/w/rows.py", 'raise ValueError("row 7 has 3 columns")', "ValueError: row 7 has 3 columns"),
            frame("/w/rows.py", "self.writer.close()", "AttributeError: 'NoneType' object has no attribute 'close'"),
            "ValueError",
            "AttributeError",
        ),
        (
            frame("/w/rows.py", "return row['prompt'] + row['answer']", "KeyError: 'prompt'"),
            frame(HUB, 'raise GenerationError("An error occurred") from e', "GenerationError: An error occurred"),
            "KeyError",
            "GenerationError",
        ),
    ],
)
def test_of_two_linked_exceptions_the_one_that_says_more_comes_first(inner, outer, first, other, tmp_path, capsys):
    path = tmp_path / "job.out"
    path.write_text(linked(inner, outer), encoding="utf-8")
    assert main(["autopsy", str(path), "--format", "json"]) == 1
    printed = capsys.readouterr().out
    assert root_of(tmp_path, linked(inner, outer)).exception == first
    assert f"{other}: " in printed


EXPORTER = (
    "[2025-11-03 10:12:01,123 E 3112 3150] core_worker_process.cc:825: Failed to establish connection to the "
    "event+metrics exporter agent. Events and metrics will not be exported. Exporter agent status: RpcError: "
    "Running out of retries to initialize the metrics agent. rpc_code: 14\n"
)
HEAD_REQUEST = (
    "'(ReadTimeoutError(\"HTTPSConnectionPool(host='hub.example', port=443): Read timed out. (read timeout=10)\"), "
    "'(Request ID: 1)')' thrown while requesting HEAD https://hub.example/m/resolve/main/config.json\n"
)
DOWNLOAD = (
    "Error while downloading from https://hub.example/m/model.safetensors: HTTPSConnectionPool(host='hub.example', "
    "port=443): Read timed out.\nTrying to resume download...\n"
)


@pytest.mark.parametrize("line", [EXPORTER, HEAD_REQUEST + "Retrying in 1s [Retry 1/5].\n", DOWNLOAD])
@pytest.mark.parametrize("end", ["Training finished.\n", RUNTIME, "accuracy: 0.91\nsaved the table\n"])
def test_healthy_what_was_tried_again_in_a_log_that_ends_well(line, end, tmp_path, capsys):
    for before in ("", steps(0, 3)):
        path = tmp_path / "job.out"
        path.write_text(before + line + end, encoding="utf-8")
        main(["autopsy", str(path)])
        assert "no failure in its" in capsys.readouterr().out


def test_healthy_a_warning_of_a_library_at_the_end(tmp_path, capsys):
    warning = "/env/lib/python3.11/site-packages/rl/sampler.py:88: Unable to infer the size of a batch\n"
    path = tmp_path / "job.out"
    path.write_text("predicting\n" + warning, encoding="utf-8")
    main(["autopsy", str(path)])
    assert "FAIL019" not in capsys.readouterr().out
    path.write_text("predicting\nfit.py:88: error: Unable to infer the size of a batch\n", encoding="utf-8")
    main(["autopsy", str(path)])
    assert "FAIL019" in capsys.readouterr().out
