import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.data.dataset_reopens import DatasetReopens

FOLDER = PATIENTS / "DATA011"
GUILTY = {"sick_hdf5": 15, "sick_numpy": 16, "sick_table": 16}


@pytest.mark.parametrize("path", sick_scripts("DATA011"), ids=lambda path: path.stem)
def test_sick_script(path):
    [finding] = examine(DatasetReopens, script_patient(path))
    assert (finding.span.line, finding.severity) == (GUILTY[path.stem], Severity.NOTE)


@pytest.mark.parametrize("path", healthy_scripts("DATA011"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(DatasetReopens, script_patient(path)) == []


def test_sick_table_moves_to_the_constructor():
    text = (FOLDER / "sick_table.py").read_text("utf-8")
    assert mended(text, unsafe=False, select="DATA011") == text
    new = mended(text, select="DATA011")
    assert "        self.length = 500\n        self._loaded = pd.read_csv(self.path)\n" in new
    assert "frame = self._loaded" in new
    assert gone("DATA011", text)
