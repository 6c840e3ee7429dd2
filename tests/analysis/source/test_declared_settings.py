"""Settings wherever they are written, their edits, and which files belong together."""

import ast

import pytest
from configs import config
from edits import apply_edits
from jobs import launch_line, patient_of
from scripts import read_script

from gpudoctor.analysis.source.config_links import links, world_size
from gpudoctor.analysis.source.declared_settings import from_entry, from_keyword, replace_key
from gpudoctor.analysis.source.training_arguments import option_words, training_arguments

HF = "output_dir: o\nper_device_train_batch_size: 1\nnum_train_epochs: 1\n"
DS = '{"zero_optimization": {"stage": 2}}'
CHAINED = """
from transformers import Trainer, TrainingArguments
名字 = Trainer(model=None, args=TrainingArguments("o", no_cuda=True), tokenizer=tok).train(resume_from_checkpoint=True)
"""


@pytest.mark.parametrize(
    ("method", "keyword", "expected"),
    [
        ("Trainer", "tokenizer", "processing_class=tok).train("),
        ("TrainingArguments", "no_cuda", 'TrainingArguments("o", processing_class=True)'),
    ],
)
def test_a_chained_call_is_not_taken_for_another(method: str, keyword: str, expected: str) -> None:
    source = read_script(CHAINED)
    [script] = source.scripts
    [call] = [item for item in script.calls if item.method == method]
    item = from_keyword(script, call, keyword)
    assert item is not None
    text = apply_edits(script.text, item.rename("processing_class"))
    assert expected in text
    assert "train(resume_from_checkpoint=True)" in text


@pytest.mark.parametrize(
    ("path", "text", "key"),
    [
        ("a.yaml", "output_dir: o\nnum_train_epochs: 1\nno_cuda:   true  # 注释\nlogging_steps: 5\n", "no_cuda"),
        (
            "a.json",
            '{"train_micro_batch_size_per_gpu": 1, "fp16": {"enable": true}, "steps_per_print": 5}',
            "fp16.enable",
        ),
    ],
)
def test_a_key_is_renamed_where_it_stands(path: str, text: str, key: str) -> None:
    file = config(text, path)
    edit = replace_key(file, (entry := file.entries[key]).line, entry.column, entry.last, "new_name")
    assert edit is not None
    lines = file.text.split("\n")
    line = lines[edit.line - 1]
    assert line[edit.column - 1 : edit.end_column - 1] == edit.expected == key.rpartition(".")[2]


def test_auto_and_templates_are_not_known() -> None:
    file = config(
        '{"zero_optimization": {"stage": 2}, "train_batch_size": "auto", "gradient_clipping": "${x}"}', "a.json"
    )
    items = [from_entry(file, file.entries[key]) for key in ("train_batch_size", "gradient_clipping")]
    assert [item.known for item in items] == [False, False]


def test_arguments_of_files_sections_calls_and_launch_lines() -> None:
    files = {
        "a.yaml": HF,
        "b.yaml": "trainer_args:\n  num_train_epochs: 1\n  eval_strategy: no\ndata:\n  batch_size: 4\n",
        "train.py": "from transformers import TrainingArguments\nargs = TrainingArguments('o')\n",
    }
    patient = patient_of(files, launch_line("torchrun train.py --output_dir o --num_train_epochs=2 --bf16"))
    titles = [setup.title for setup in training_arguments(patient)]
    assert titles == ["a.yaml", "b.yaml, trainer_args", "train.py:2", "job.sh:1"]


def test_words_of_a_launch_line() -> None:
    words = option_words(("--bf16", "--learning-rate", "1e-4", "--deepspeed=ds.json", "x.yaml"))
    assert words == {"bf16": "", "learning_rate": "1e-4", "deepspeed": "ds.json"}


@pytest.mark.parametrize(
    ("name", "at", "linked"),
    [
        ("ds.json", "job/ds.json", True),
        ("./ds.json", "job/ds.json", True),
        ("ds.json", "ds.json", True),
        ("conf/ds.json", "conf/ds.json", True),
        ("../conf/ds.json", "conf/ds.json", True),
        ("conf/ds.json", "other/conf/ds.json", False),
        ("ds.json", "conf/ds.json", False),
        ("ds.json", "job/conf/ds.json", False),
        ("s.json", "job/ds.json", False),
    ],
)
def test_a_file_that_is_named(name: str, at: str, linked: bool) -> None:
    patient = patient_of({"job/a.yaml": HF + f"deepspeed: {name}\n", at: DS})
    assert bool(links(patient)) is linked


def test_two_files_of_one_name_link_nothing() -> None:
    patient = patient_of({"run/a.yaml": HF + "deepspeed: ds.json\n", "x/ds.json": DS, "y/ds.json": DS})
    assert links(patient) == []


def test_the_only_pair_is_no_sure_link() -> None:
    [link] = links(patient_of({"a.yaml": HF, "ds.json": DS}))
    assert not link.sure


def test_files_of_a_folder_are_no_pair() -> None:
    patient = patient_of({"a.yaml": HF, "ds.json": DS})
    patient.targets = ("configs",)
    assert links(patient) == []


@pytest.mark.parametrize(("ranks", "world"), [(None, None), (4, 4)])
def test_the_world_of_a_launch_line(ranks: int | None, world: int | None) -> None:
    assert world_size(patient_of({"a.yaml": HF}, launch_line("torchrun train.py", ranks=ranks))) == world


def test_the_expression_keeps_its_quotes() -> None:
    [script] = read_script('f(a="epoch")\n').scripts
    item = from_keyword(script, script.calls[0], "a")
    assert item is not None
    assert isinstance(item.node, ast.Constant)
    assert item.node_text == '"epoch"'
