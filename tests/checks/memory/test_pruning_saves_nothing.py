from scripts import script_patient, sick_scripts

from gpudoctor.testing import examine
from gpudoctor_checks.memory.pruning_saves_nothing import PruningSavesNothing


def test_healthy_sparse_kernels():
    text = sick_scripts("MEM011")[-1].read_text("utf-8") + "\nmodel = torch.nn.Linear(8, 8).weight.to_sparse_csr()\n"
    assert examine(PruningSavesNothing, script_patient(text)) == []
