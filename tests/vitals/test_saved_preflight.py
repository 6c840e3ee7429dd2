import json

import pytest
from preflights import every_pair, figure, loss, preflight, unit

from gpudoctor.model import Unavailable
from gpudoctor.model.signs.preflight import Quantity
from gpudoctor.report.json import preflight_object
from gpudoctor.vitals.saved_preflight import read_preflight

WHOLE = preflight(
    4,
    units=tuple(
        unit(at, figures=(figure(Quantity.MATMUL, 640e12, dtype="bf16"),), digests={"bf16": ("a",)}) for at in range(4)
    ),
    tests=every_pair(4),
    losses=(loss(2),),
)


def written(tmp_path, part):
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"preflight": part}), encoding="utf-8")
    return path


def test_what_was_written_is_read_back(tmp_path):
    assert read_preflight(written(tmp_path, preflight_object(WHOLE))) == WHOLE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a report of gpudoctor preflight"),
        ('{"preflight": null}', "is not a report of gpudoctor preflight"),
        ('{"preflight": {"mode": 3}}', "has a part that a preflight does not have"),
        ('{"preflight": {"nodes": {"a": 1}}}', "has a part that a preflight does not have"),
        ('{"preflight": {"mode": "quick", "backend": "", "world": 1, "nodes": [], "seconds": NaN}}', "not finite"),
        (
            '{"preflight": {"mode": "quick", "backend": "", "world": 1, "nodes": [], "units": '
            '[{"node": 5, "local": 0, "device": "cuda", "name": "x"}]}}',
            "a node that it does not name",
        ),
        ("[" * 5000, "is not JSON"),
    ],
)
def test_other_files_are_a_sentence(tmp_path, text, message):
    path = tmp_path / "report.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Unavailable, match=message):
        read_preflight(path)
