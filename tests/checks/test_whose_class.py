"""A keyword is checked against the class that is called, a config against a reader that its keys identify."""

import pytest
from scripts import read_script

from gpudoctor.model import PatientKind
from gpudoctor.testing import examine, make_packages, make_patient
from gpudoctor.vitals.configs.reading import read_configs
from gpudoctor_checks.config.deprecated_key import DeprecatedKey
from gpudoctor_checks.config.unknown_key import UnknownKey
from gpudoctor_checks.distributed.dataparallel import Dataparallel


@pytest.fixture
def job(tmp_path):
    (tmp_path / ".git").mkdir()

    def build(files, configs=()):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        scripts = [name for name in files if name.endswith(".py")]
        return make_patient(
            kind=PatientKind.SCRIPT,
            source=read_script(tmp_path / scripts[0]) if scripts else None,
            configs=read_configs([tmp_path / name for name in configs]) if configs else None,
            packages=make_packages(transformers="5.1.0"),
        )

    return build


OWN_TRAINER = """from transformers import AutoTokenizer
class Trainer:
    def __init__(self, model, tokenizer): ...
    def train(self): ...
Trainer(3, tokenizer=AutoTokenizer.from_pretrained("x")).train()
"""
SUBCLASS = """from transformers import AutoTokenizer
from lib import Mine
Mine(3, tokenizer=AutoTokenizer.from_pretrained("x")).train()
"""
REPLACED = "from transformers import Trainer\nclass Mine(Trainer):\n    def __init__(self, model, tokenizer): ...\n"


@pytest.mark.parametrize("files", [{"train.py": OWN_TRAINER}, {"train.py": SUBCLASS, "lib.py": REPLACED}])
def test_healthy_an_argument_that_the_own_trainer_declares(job, files):
    assert examine(DeprecatedKey, job(files)) == []


HF = """per_device_train_batch_size: 4
num_train_epochs: 3
learning_rate: 0.1
output_dir: x
{key}: 3
"""


@pytest.mark.parametrize(
    ("script", "key"),
    [
        (None, "my_own_table_of_things"),
        (
            "from transformers import TrainingArguments\nclass ModelArguments:\n    warmup_step: int = 3\n",
            "warmup_step",
        ),
        ("import yaml, transformers\ncfg = yaml.safe_load(open('c.yaml'))\nx = cfg['warmup_step']\n", "warmup_step"),
        ("import torch, yaml\ncfg = yaml.safe_load(open('c.yaml'))\nmodel = torch.nn.Linear(3, 3)\n", "warmup_step"),
    ],
    ids=["own", "argument-class", "read-by-name", "no-such-reader"],
)
def test_healthy_config_keys_that_the_job_itself_declares(job, script, key):
    files = {"c.yaml": HF.format(key=key)} | ({"train.py": script} if script else {})
    assert examine(UnknownKey, job(files, ["c.yaml"])) == []


PARALLEL = """import torch
{imports}
model = {wrap}(torch.nn.Linear(3, 3).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(range(30)):
    model(x.cuda()).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("devices", "found"), [("[0]", 0), ("(args_gpu,)", 0), ("[0, 1]", 1), ("[*ids]", 1)])
def test_one_device_replicates_nothing(job, devices, found):
    text = PARALLEL.format(imports="", wrap="torch.nn.DataParallel").replace(".cuda())\n", f".cuda(), {devices})\n")
    assert len(examine(Dataparallel, job({"train.py": text}))) == found
