"""How programs, shells, notebooks and test runners write an end: the cause, its line and its frame are found."""

import pytest
from log_causes import named, raised, root_of, steps

FRAMES = '  File "/work/fit.py", line 12, in main\n    fit(model)\n'
CASES = {
    "a cell run by papermill": (
        raised("papermill.exceptions.PapermillExecutionError: ")
        + "-" * 75
        + '\nException encountered at "In [7]":\n'
        + "-" * 75
        + "\nKeyError                                  Traceback (most recent call last)\n"
        "Cell In[7], line 1\n----> 1 fit(model)\n\nKeyError: 'mask'\n",
        "KeyError",
    ),
    "a cell run by nbclient": (
        raised("nbclient.exceptions.CellExecutionError: An error occurred while executing the following cell:")
        + "-" * 18
        + "\nfit(model)\n"
        + "-" * 18
        + "\n\n"
        + "-" * 75
        + "\nKeyError                                  Traceback (most recent call last)\n"
        "Cell In[7], line 1\n----> 1 fit(model)\n\nKeyError: 'mask'\n",
        "KeyError",
    ),
    "one line": (f"Traceback (most recent call last): {' '.join(FRAMES.split())} KeyError: 'mask'\n", "KeyError"),
    "line breaks of HTML": (
        "Traceback (most recent call last):<br>" + FRAMES.replace("\n", "<br>") + "KeyError: 'mask'<br>\n",
        "KeyError",
    ),
    "an assertion of pytest": (
        "=== FAILURES ===\n    def test_fit():\n>       assert loss < 1\nE       assert 2.3 < 1\n\n"
        "tests/test_fit.py:12: AssertionError\n=== short test summary info ===\n"
        "FAILED tests/test_fit.py::test_fit - assert 2.3 < 1\n=== 1 failed in 2.11s ===\n",
        "AssertionError",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_exception_is_named(name, tmp_path):
    text, exception = CASES[name]
    root = root_of(tmp_path, steps(1, 20) + text)
    assert (root.code, root.exception.rpartition(".")[2]) == ("FAIL001", exception)
    assert root.frame is None or root.frame.line in (1, 7, 12)


def test_a_summary_of_torchrun_names_the_rank_of_its_traceback(tmp_path):
    text = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-03-01_10:11:12\n  host      : node7\n"
        "  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 4242)\n  error_file: /tmp/e/3/error.json\n"
        "  traceback : Traceback (most recent call last):\n"
        "    File \"/work/fit.py\", line 12, in main\n      fit(model)\n  KeyError: 'mask'\n\n"
    )
    root = root_of(tmp_path, steps(1, 20) + text)
    assert (root.exception, root.rank, root.frame.line) == ("KeyError", 3, 12)


USAGE = "usage: fit.py [-h] [--lr LR]\n"
REFUSED = {
    "argparse, own words": USAGE + "fit.py: error: --lr must be above 0\n",
    "a subcommand": USAGE + "cli.py fit: error: unknown precision\n",
    "torchrun": "usage: torchrun [-h]\ntorchrun: error: argument --nnodes: expected one argument\n",
    "typer": "Usage: fit.py [OPTIONS]\n╭─ Error ───╮\n│ No such option: --learning-rate │\n╰───────────╯\n",
    "tyro": "╭─ Unrecognized options ─╮\n│ Unrecognized options: --lrx 0.1 │\n╰────────────╯\n",
    "Fire": "ERROR: Could not consume arg: --lrx\nUsage: fit.py <command>\n",
    "Fire, flags": "ERROR: Missing required flags: {'data'}\nUsage: fit.py --data=DATA\n",
    "jsonargparse": USAGE + 'error: Parser key "trainer.max_epocs": not expected\n',
    "jsonargparse, validation": USAGE + "error: Validation failed: Key 'hiden' is not expected\n",
    "Hydra, a group": "In 'config': Could not find 'model/gptx'\n\nAvailable options in 'model':\n\tgpt\n",
    "Hydra, a module": "Primary config module 'conf' not found.\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_command_line(name, tmp_path):
    assert named(tmp_path, REFUSED[name]) == "CFG010"
    assert named(tmp_path, REFUSED[name] + steps(1, 40)) is None


def test_an_object_that_hydra_could_not_make(tmp_path):
    head = "Error executing job with overrides: []\nError in call to target 'src.gpt.GPT':\n"
    end = "full_key: model\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"
    oom = "OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.15 GiB in all.')\n"
    assert named(tmp_path, steps(1, 20) + head + oom + end) == "MEM009"
    assert named(tmp_path, steps(1, 20) + head + "FileNotFoundError(2, 'No such file')\n" + end) == "CFG010"
    assert named(tmp_path, steps(1, 20) + "KeyError('a')\n" + steps(20, 40)) is None


def test_messages_of_other_programs_are_no_refused_command_line(tmp_path):
    for line in ("fit.py:12: error: Incompatible types in assignment", "srun: error: no node", "cc1plus: error: x"):
        assert named(tmp_path, steps(1, 20) + line + "\n") != "CFG010"


DEATHS = {
    "run.sh: 行 12:  4242 已杀死               python fit.py": "FAIL002",
    "run.sh\uff1a第 12 行\uff1a 4242 已杀死               python fit.py": "FAIL002",
    "已杀死": "FAIL002",
    "run.sh: Zeile 12:  4242 Getötet                 python fit.py": "FAIL002",
    "run.sh : ligne 12 :  4242 Processus arrêté      python fit.py": "FAIL002",
    "run.sh: строка 12:  4242 Убито              python fit.py": "FAIL002",
    "subprocess.CalledProcessError: Command '['/opt/bin/python', 'fit.py']' died with <Signals.SIGKILL: 9>.": "FAIL002",
    "subprocess.CalledProcessError: Command '['python', 'fit.py']' returned non-zero exit status 137.": "FAIL002",
    "fit-1 exited with code 137": "FAIL002",
    "make: *** [Makefile:12: fit] Killed": "FAIL002",
    "make: *** [Makefile:12: fit] Error 137": "FAIL002",
    "段错误 (核心已转储)": "FAIL006",
    "run.sh: 行 3: 4242 段错误               (核心已转储) python fit.py": "FAIL006",
    "run.sh: Zeile 3: 4242 Speicherzugriffsfehler (Speicherabzug geschrieben) python fit.py": "FAIL006",
    "fit-1 exited with code 139": "FAIL006",
    "subprocess.CalledProcessError: Command '['python', 'fit.py']' returned non-zero exit status 134.": "FAIL006",
    "fit-1 exited with code 135": "FAIL005",
    "run.sh: 行 3: torchrun: 未找到命令": "FAIL020",
    "bash: torchrun\uff1a未找到命令": "FAIL020",
    'OSError: [WinError 1455] 页面文件太小\uff0c无法完成操作。 Error loading "C:\\torch\\lib\\cublas64_11.dll" or one of its '
    "dependencies.": "ENV009",
}


@pytest.mark.parametrize("line", DEATHS)
def test_a_death_in_other_words(line, tmp_path):
    assert named(tmp_path, steps(1, 20) + line + "\n") == DEATHS[line]
    assert named(tmp_path, steps(1, 20) + line + "\n" + steps(20, 60)) is None


def test_an_exit_code_of_a_program_itself_is_no_kill(tmp_path):
    for line in ("fit-1 exited with code 1", "make: *** [Makefile:12: fit] Error 1", "fit-1 exited with code 0"):
        assert named(tmp_path, steps(1, 20) + line + "\n") not in ("FAIL002", "FAIL006", "FAIL005")
