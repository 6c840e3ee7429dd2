import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.data.unpinned_transfer import UnpinnedTransfer
from gpudoctor_rules.data.unpinned_transfer import UnpinnedTransferRule

FOLDER = PATIENTS / "DATA004"


@pytest.mark.parametrize("path", sick_scripts("DATA004"), ids=lambda path: path.stem)
def test_sick_script(path):
    [finding] = examine(UnpinnedTransfer, script_patient(path))
    assert finding.severity is Severity.NOTE


@pytest.mark.parametrize(
    ("script", "kind", "keywords"),
    [
        ("sick_unpinned.py", "unpinned", ["pin_memory", "non_blocking", "non_blocking"]),
        ("sick_pageable_non_blocking.py", "pageable", ["pin_memory"]),
        ("sick_blocking_copy.py", "blocking", ["non_blocking", "non_blocking"]),
        ("sick_dict_batches.py", "unpinned", ["pin_memory", "non_blocking"]),
        ("sick_trainer_off.py", "engine", ["dataloader_pin_memory"]),
    ],
)
def test_sick_kind_and_its_edits(script, kind, keywords):
    patient = script_patient(FOLDER / script)
    [finding] = examine(UnpinnedTransfer, patient)
    assert finding.fact("kind") == kind
    [remedy] = prescribe(UnpinnedTransferRule, finding, patient)
    assert [edit.set[0] for edit in remedy.edits] == [(keyword, "True") for keyword in keywords]


@pytest.mark.parametrize("path", healthy_scripts("DATA004"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(UnpinnedTransfer, script_patient(path)) == []
