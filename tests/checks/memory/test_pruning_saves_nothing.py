import pytest
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.memory.pruning_saves_nothing import PruningSavesNothing
from gpudoctor_rules.advice import advice

GUILTY = {"sick_masks": 6, "sick_global": 7}


@pytest.mark.parametrize("path", sick_scripts("MEM011"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(PruningSavesNothing, patient)
    assert (finding.span.line, finding.severity) == (GUILTY[path.stem], Severity.NOTE)
    remove, structured = prescribe(advice("memory"), finding, patient)
    assert "prune.remove" in remove.title
    assert "2:4" in structured.title


@pytest.mark.parametrize("path", healthy_scripts("MEM011"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(PruningSavesNothing, script_patient(path)) == []


def test_healthy_sparse_kernels():
    text = sick_scripts("MEM011")[1].read_text("utf-8") + "\nmodel = torch.nn.Linear(8, 8).weight.to_sparse_csr()\n"
    assert examine(PruningSavesNothing, script_patient(text)) == []


def test_sick_although_a_comment_speaks_of_sparse_kernels():
    text = sick_scripts("MEM011")[1].read_text("utf-8") + "\n# no to_sparse here\n"
    assert len(examine(PruningSavesNothing, script_patient(text))) == 1
