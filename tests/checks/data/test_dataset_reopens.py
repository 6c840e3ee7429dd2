from mending import gone, mended
from scripts import PATIENTS

FOLDER = PATIENTS / "DATA011"


def test_sick_table_moves_to_the_constructor():
    text = (FOLDER / "sick_table.py").read_text("utf-8")
    assert mended(text, unsafe=False, select="DATA011") == text
    new = mended(text, select="DATA011")
    assert "        self.length = 500\n        self._loaded = pd.read_csv(self.path)\n" in new
    assert "frame = self._loaded" in new
    assert gone("DATA011", text)
