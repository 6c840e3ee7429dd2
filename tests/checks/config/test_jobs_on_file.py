"""The jobs on file of the checks of settings: what each finds, and where."""

import pytest
from jobs import job_files, job_patient

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient
from gpudoctor_checks.config.batch_mismatch import BatchMismatch
from gpudoctor_checks.config.deprecated_key import DeprecatedKey
from gpudoctor_checks.config.lora_misfit import LoraMisfit
from gpudoctor_checks.config.optimizer_mismatch import OptimizerMismatch
from gpudoctor_checks.config.precision_conflict import PrecisionConflict
from gpudoctor_checks.config.quantisation_conflict import QuantisationConflict
from gpudoctor_checks.config.unknown_key import UnknownKey

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR
EXPECTED = {
    PrecisionConflict: {
        "configs-sick_accelerate": {(ERROR, 6)},
        "configs-sick_both_halves": {(ERROR, 6)},
        "configs-sick_engine": {(ERROR, 4)},
        "configs-sick_llama_factory": {(ERROR, 5)},
        "configs-sick_sections": {(WARNING, 5)},
        "source-sick_both": {(ERROR, 4)},
        "source-sick_dict": {(ERROR, 6)},
        "source-sick_loaded_in_half": {(WARNING, 4)},
    },
    BatchMismatch: {
        "configs-sick_arithmetic": {(ERROR, 2)},
        "configs-sick_axolotl": {(ERROR, 7)},
        "configs-sick_pair": {(ERROR, 2)},
        "source-sick_initialize": {(ERROR, 4)},
    },
    OptimizerMismatch: {
        "configs-sick_rates": {(ERROR, 6), (WARNING, 6)},
        "configs-sick_sections": {(WARNING, 4)},
        "source-sick_two_optimizers": {(WARNING, 11)},
    },
    UnknownKey: {
        "configs-sick_accelerate": {(ERROR, 3)},
        "configs-sick_axolotl": {(WARNING, 6)},
        "configs-sick_bitsandbytes": {(WARNING, 3)},
        "configs-sick_deepspeed": {(ERROR, 5), (WARNING, 8)},
        "configs-sick_lightning": {(WARNING, 5)},
        "configs-sick_llama_factory": {(ERROR, 6)},
        "configs-sick_torchtune": {(WARNING, 8)},
        "configs-sick_transformers": {(WARNING, 4)},
        "source-sick_arguments": {(ERROR, 4), (ERROR, 5)},
        "source-sick_quantised": {(WARNING, 6)},
    },
    LoraMisfit: {
        "configs-sick_axolotl": {(NOTE, 7)},
        "configs-sick_gather": {(NOTE, 5)},
        "configs-sick_llama_factory": {(NOTE, 4)},
        "source-sick_alpha": {(NOTE, 3)},
        "source-sick_some_targets": {(NOTE, 15)},
        "source-sick_targets": {(NOTE, 5)},
    },
    QuantisationConflict: {
        "configs-sick_axolotl_full": {(ERROR, 2)},
        "configs-sick_axolotl_qlora": {(ERROR, 6)},
        "configs-sick_both": {(ERROR, 2)},
        "configs-sick_dtype": {(WARNING, 3)},
        "configs-sick_llama_factory": {(ERROR, 3)},
        "configs-sick_stage_three": {(WARNING, 6)},
        "source-sick_both": {(ERROR, 3)},
        "source-sick_compute_dtype": {(WARNING, 10)},
        "source-sick_default_dtype": {(WARNING, 4)},
        "source-sick_full": {(ERROR, 4)},
    },
    DeprecatedKey: {
        "configs-sick_accelerate": {(NOTE, 3)},
        "configs-sick_axolotl": {(NOTE, 6)},
        "configs-sick_deepspeed": {(NOTE, 5), (NOTE, 6)},
        "configs-sick_transformers": {(WARNING, 4), (NOTE, 6), (NOTE, 7)},
        "source-sick_arguments": {(WARNING, 6), (NOTE, 6), (NOTE, 5), (NOTE, 7)},
    },
}
JOBS = [
    (check, name, paths, EXPECTED[check].get(name, set()))
    for check in EXPECTED
    for state in ("sick", "healthy")
    for name, paths in job_files(check.code, state)
]


def test_every_job_is_named():
    assert {(check, name) for check, name, _, _ in JOBS if "sick" in name} == {
        (check, name) for check, names in EXPECTED.items() for name in names
    }


@pytest.mark.parametrize(("check", "name", "paths", "expected"), JOBS, ids=[f"{job[0].code}-{job[1]}" for job in JOBS])
def test_sick_and_healthy_jobs(check, name, paths, expected):
    findings = examine(check, job_patient(paths))
    assert {(finding.severity, finding.evidence[0].line) for finding in findings} == expected
    if check.code in ("CFG001", "CFG002", "CFG005", "CFG008"):
        assert all((finding.cost.breaks is not None) == (finding.severity is ERROR) for finding in findings)


@pytest.mark.parametrize("check", EXPECTED)
def test_skipped_without_source_and_configs(check):
    with pytest.raises(Unavailable):
        examine(check, make_patient())
