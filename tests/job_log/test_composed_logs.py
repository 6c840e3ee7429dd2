"""Ends of jobs that writers of realistic logs composed: restarts, tests, quoted tracebacks, other notations."""

import pytest
from log_causes import FRAME, HEAD, named, raised, root_of, steps

STAMP = "2026-11-20T12:00:01.2{}Z "
ELASTIC = "torch/distributed/elastic/agent/server/api.py"
FAILED = (
    "W0509 04:07:20.3 300 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 411 closing signal SIGTERM\n"
    "E0509 04:07:20.5 300 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 2 "
    "(pid: 413) of binary: /usr/bin/python3\n"
)
RESTARTED = (
    f"I0509 04:07:28.6 300 {ELASTIC}:525] [default] Rendezvous complete for workers. Result:\n"
    f"I0509 04:07:28.6 300 {ELASTIC}:525]   restart_count=1\n"
)
OF_RANK_2 = "".join(f"[rank2]: {line}\n" for line in raised("OSError: shard 88 cannot be had").splitlines())


def ranked(first, last):
    return "".join(f"[rank0] 04:00:22 step {n} loss {4 - n / 100:.2f}\n" for n in range(first, last))


def test_a_restart_by_torchrun_that_trains_on_is_no_death(tmp_path):
    text = ranked(0, 9) + OF_RANK_2 + FAILED
    assert named(tmp_path, text) == "FAIL001"
    assert named(tmp_path, text + RESTARTED + ranked(7, 20)) is None


def test_a_second_death_behind_the_restart_counts(tmp_path):
    text = ranked(0, 9) + OF_RANK_2 + FAILED + RESTARTED + ranked(7, 9)
    again = OF_RANK_2.replace("OSError: shard 88 cannot be had", "KeyError: 'labels'")
    assert root_of(tmp_path, text + again + FAILED).exception == "KeyError"


def test_the_launcher_s_good_end_outweighs_an_earlier_death(tmp_path):
    end = f"I0509 04:23:14.8 300 {ELASTIC}:883] [default] worker group successfully finished. Waiting 300 seconds\n"
    assert named(tmp_path, ranked(0, 9) + OF_RANK_2 + FAILED + ranked(7, 20) + end) is None


def test_tests_that_expect_errors_pass_behind_the_stamps_of_ci(tmp_path):
    lines = [
        "=== test session starts ===",
        "ERROR    trainer.guard:guard.py:31 loss is nan at step 3, aborting",
        "tests/test_ckpt.py::test_missing_key_raises PASSED      [ 50%]",
        "=================== 5 passed, 1 xfailed in 41.20s ====================",
    ]
    text = "".join(f"{STAMP.format(at)}{line}\n" for at, line in enumerate(lines))
    assert named(tmp_path, text) is None
    assert named(tmp_path, text.replace("5 passed, 1 xfailed", "1 failed, 4 passed")) == "NUM002"


@pytest.mark.parametrize("between", ["", "\n"])
def test_a_warning_of_python_that_quotes_a_traceback(tmp_path, between):
    said = "/work/ops/act.py:50: UserWarning: Failed to build the kernels. Details:\n" + between
    ticks = "".join(f"tick {n}     kimg {n}.0   time 3m 20s  sec/tick 41.2  augment 0.1\n" for n in range(9))
    text = said + raised("RuntimeError: no compiler on this computer")
    assert named(tmp_path, text + ticks) is None
    assert named(tmp_path, raised("RuntimeError: no compiler on this computer")) == "FAIL001"


def test_tracebacks_in_what_a_model_wrote(tmp_path):
    sample = "=== sample ===\n" + raised("RuntimeError: CUDA error: device-side assert triggered") + "=== end ===\n"
    text = "".join(f"preparing part {chr(97 + n)} of the data\n" for n in range(26))
    text += "".join(f"step {50 * n} loss 1.{9 - n}00\n{sample}" for n in range(9))
    assert named(tmp_path, text + "finished 450 steps\n") is None


@pytest.mark.parametrize(
    "failure",
    [
        raised("PIL.UnidentifiedImageError: cannot identify image file 'a.jpg'"),
        "validation: sample 17 raised ValueError: empty mask, skipped\n",
    ],
)
def test_what_the_training_survived_before_is_no_end(tmp_path, failure):
    text = "".join(steps(20 * k, 20 * k + 20) + failure for k in range(3))
    assert named(tmp_path, text + steps(60, 62) + "saved the final weights\n") is None


def test_a_first_failure_behind_which_two_ranks_print_their_last_steps(tmp_path):
    plain = [f"step {n} loss 1.5\n" for n in range(22)]
    text = "".join(plain[:20]) + raised("PIL.UnidentifiedImageError: cannot identify image file 'a.jpg'")
    assert named(tmp_path, text + "".join(plain[20:])) == "FAIL016"


def test_trials_that_fail_in_a_search_that_goes_on(tmp_path):
    text = "".join(
        f"[W 2024-01-01 10:0{n}:00,000] Trial {n} failed with parameters: {{'lr': 1.0}} because of the following "
        f"error: RuntimeError('loss is nan').\n{raised('RuntimeError: loss is nan')}"
        f"[W 2024-01-01 10:0{n}:30,000] Trial {n} failed with value None.\n"
        f"[I 2024-01-01 10:0{n}:40,000] Trial {n + 9} finished with value: 0.3.\n"
        for n in range(4)
    )
    text += "[I 2024-01-01 10:04:40,000] Trial 13 finished with value: 0.2.\n"
    assert named(tmp_path, text + "Best trial: 13\n") is None


def test_output_of_a_child_process_that_a_scheduler_logs_line_by_line(tmp_path):
    text = "".join(
        f"[2026-10-22, 06:00:02 UTC] {{subprocess.py:93}} INFO - {line}\n"
        for line in raised("KeyError: 'labels'").splitlines()
    )
    task = "[2026-10-22, 06:00:09 UTC] {taskinstance.py:3311} ERROR - Task failed with exception\n"
    wrapped = raised(
        "airflow.exceptions.AirflowException: Bash command failed. The command returned a non-zero exit code 1."
    )
    root = root_of(tmp_path, text + task + wrapped)
    assert (root.exception, root.line) == ("KeyError", 4)


def test_loss_that_may_become_nan_is_advice(tmp_path):
    said = "AMP: checks failed. Anomalies were detected that may lead to NaN losses, so AMP will be disabled.\n"
    assert named(tmp_path, said + steps(0, 2)) is None
    assert named(tmp_path, steps(0, 2) + "NaN loss, the training ends\n") == "NUM002"


def test_a_notice_of_the_cloud_before_what_followed(tmp_path):
    notice = '2026-05-15 17:16:33,347 [WARN] watcher: spot/instance-action: {"action": "terminate", "time": "x"}\n'
    later = "2026-05-15 17:18:26,348 [ERROR] ckpt: upload aborted: ConnectionError: could not reach the store\n"
    assert named(tmp_path, steps(0, 5) + notice + later) == "FAIL002"


def test_a_rank_of_jax_in_brackets_without_a_colon(tmp_path):
    text = "".join(f"[task 5] {line}\n" for line in (HEAD + FRAME + "ValueError: a chunk is damaged").splitlines())
    root = root_of(tmp_path, text)
    assert (root.code, root.rank, root.exception) == ("FAIL001", 5, "ValueError")


def test_a_peer_that_does_not_answer_may_have_raised_later_in_the_log(tmp_path):
    lost = "NET/IB : Got completion from peer 10.1.4.37<51002> with status=12 opcode=0 len=0 vendor err 129\n"
    assert named(tmp_path, "60: " + lost) == "FAIL008"
    own = "".join(f"37: [rank37]: {line}\n" for line in raised("IndexError: index 9 is out of bounds").splitlines())
    assert root_of(tmp_path, "60: " + lost + own).rank == 37


def test_background_workers_that_are_gone_are_a_symptom(tmp_path):
    gone = raised("RuntimeError: One or more background workers are no longer alive. Exiting.")
    root = root_of(tmp_path, steps(0, 5) + gone)
    assert (root.code, root.bearing.value) == ("DATA010", "symptom")


def test_the_kernel_s_kill_of_the_job_before_that_of_a_browser(tmp_path):
    killed = "[ {at}.200000] Out of memory: Killed process {pid} ({name}) total-vm:1kB, anon-rss:1kB, file-rss:0kB\n"
    browser = killed.format(at=100, pid=4102, name="chrome")
    job = killed.format(at=900, pid=22104, name="python3")
    assert root_of(tmp_path, browser + job).line == 2
    assert root_of(tmp_path, browser).line == 1


def test_a_debugger_that_the_user_left_is_no_cause(tmp_path):
    text = steps(0, 3) + raised("KeyError: 'labels'") + "dropping into the debugger\n" + raised("bdb.BdbQuit")
    assert root_of(tmp_path, text).exception == "KeyError"


def test_a_warning_before_the_exception_that_nobody_caught(tmp_path):
    warned = "WARNING  a.png: OSError: broken PNG chunk, skipped\n" + "step 18/1600 loss 0.1\n"
    wrapped = "subprocess.CalledProcessError: Command '['python', 'fit.py']' returned non-zero exit status 1."
    text = warned + raised("UnicodeEncodeError: 'charmap' codec can't encode character") + raised(wrapped)
    assert root_of(tmp_path, text).exception == "UnicodeEncodeError"


@pytest.mark.parametrize(
    "progress",
    [
        "| rollout/     |          |\n|    n_updates  | {n}0      |\n",
        "step {n} 2.66{n}\n",
        "{n} 3.23{n} 42610\n",
        "Epoch {n}: 100%|##########| 20/20 [00:03<00:00,  6.1it/s, v_num=7]\n",
        "     {n}/50      6.2G     0.633      1.1     640: 100%|##########| 563/563 [01:10<00:00,  8.01it/s]\n",
    ],
)
def test_progress_that_names_no_loss(tmp_path, progress):
    text = steps(0, 3) + "Killed\n"
    assert named(tmp_path, text) == "FAIL002"
    assert named(tmp_path, text + "".join(progress.format(n=n) for n in range(4, 9))) is None


def test_a_job_that_slurm_queued_again_and_that_completed(tmp_path):
    text = steps(0, 9) + "slurmstepd: error: *** JOB 12 ON g1 CANCELLED AT 2026-11-18T01:00:00 DUE TO PREEMPTION ***\n"
    assert named(tmp_path, text) == "FAIL002"
    assert named(tmp_path, text + "SLURM_RESTART_COUNT=1\n" + steps(7, 30)) is None
    assert named(tmp_path, text + "Job 12 finished: COMPLETED (exit code 0)\n") is None


def test_code_that_sends_a_signal_is_no_kill(tmp_path):
    assert named(tmp_path, steps(0, 3) + "[rank 2] next: os.kill(os.getpid(), SIGKILL)\n") is None


def test_a_record_of_a_pod_above_the_log_of_another_that_shows_only_consequences(tmp_path):
    record = "    State:          Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n\n"
    lost = raised(
        "RuntimeError: [/gloo/transport/tcp/pair.cc:525] Read error [10.4.2.11]:41022: Connection reset by peer"
    )
    summary = "train.py FAILED\nRoot Cause (first observed failure):\n"
    root = root_of(tmp_path, record + steps(0, 20) + lost + summary)
    assert (root.code, root.line) == ("FAIL002", 2)
    assert named(tmp_path, record + steps(0, 20)) is None
