from pathlib import Path

import pytest

from gpudoctor.model import Unavailable
from gpudoctor.model.signs.packages import Distribution, Packages
from gpudoctor.vitals.argument_fields import read_argument_fields


def environment(folder: Path, *names: str) -> Packages:
    return Packages(
        prefix=str(folder),
        python="3.11.7",
        executable=str(folder / "bin/python"),
        distributions={
            name: Distribution(name=name, version="4.57.1", requires=(), location=str(folder)) for name in names
        },
    )


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_fields_with_those_inherited(tmp_path: Path) -> None:
    write(
        tmp_path,
        "transformers/training_args.py",
        "import torch_is_not_imported\nfrom typing import ClassVar\n\n@dataclass\nclass TrainingArguments:\n"
        "    framework: ClassVar[str] = 'pt'\n    output_dir: str = None\n    lr: float = field(default=1)\n"
        "    def f(self):\n        x: int = 1\n",
    )
    write(
        tmp_path,
        "transformers/training_args_seq2seq.py",
        "@dataclass\nclass Seq2SeqTrainingArguments(TrainingArguments):\n    sortish_sampler: bool = False\n",
    )
    found = read_argument_fields(environment(tmp_path, "transformers"))
    assert found.fields["TrainingArguments"] == {"output_dir", "lr"}
    assert found.fields["Seq2SeqTrainingArguments"] == {"output_dir", "lr", "sortish_sampler"}
    assert found.versions == {"transformers": "4.57.1"}


def test_unavailable_without_the_libraries(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="neither"):
        read_argument_fields(environment(tmp_path, "torch"))
