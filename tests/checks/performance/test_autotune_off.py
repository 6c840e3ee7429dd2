from mending import mended
from scripts import PATIENTS

FOLDER = PATIENTS / "PERF010"


def test_sick_without_torch_imported():
    text = (FOLDER / "sick_resnet.py").read_text("utf-8")
    text = text.replace("import torch\n", "from torch import device, optim, utils\n")
    text = text.replace("torch.device", "device").replace("torch.utils", "utils").replace("torch.optim", "optim")
    after = mended(text, select="PERF010")
    assert "import torch\n" in after and after.count("cudnn.benchmark = True") == 1
