"""Checks that are known without their modules: the index equals the classes, answers as they do, and is never stale."""

import sys

import pytest
from recordings import make_process, make_recording, make_steps
from scripts import script_patient

import gpudoctor_checks
from gpudoctor.engine.runner import run_checks
from gpudoctor.model import Check, PatientKind
from gpudoctor.model.collecting import INDEX, indexed
from gpudoctor.testing import make_gpu, make_host, make_packages, make_patient, make_survey
from gpudoctor.vitals.job_log import read_job_log

CLASSES = {check.code: check for check in gpudoctor_checks.classes()}
INDEXED = {check.code: check for check in gpudoctor_checks.collect()}
CHECK = '''
from gpudoctor.model import Check, Code, Reads, Unavailable

class Noise(Check):
    """The fan is loud."""
    code = Code("ACME001")
    name = "noise"
    reads = frozenset({Reads.ENVIRONMENT})

    def examine(self, patient):
        if patient.host.cpus_affinity > 4:
            raise Unavailable("quiet")
        yield from ()
'''


def test_the_index_says_what_the_classes_say():
    assert list(INDEXED) == list(CLASSES)
    for code, check in CLASSES.items():
        for name in (*Check.__annotations__, "__doc__", "__name__", "__module__"):
            assert getattr(INDEXED[code], name, None) == getattr(check, name, None), (code, name)
        assert INDEXED[code].all_log_messages() == check.all_log_messages()


def patients(tmp_path):
    (tmp_path / "job.log").write_text("step 1\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n")
    messages = [(code, message) for code, check in CLASSES.items() for message in check.all_log_messages()]
    log = read_job_log([str(tmp_path / "job.log")], messages)
    yield from (make_patient(kind=kind) for kind in PatientKind)
    yield from (make_patient(kind=kind, survey=make_survey(), host=make_host()) for kind in PatientKind)
    yield make_patient(kind=PatientKind.LOG, job_log=log)
    yield make_patient(
        kind=PatientKind.RECORDING, recording=make_recording(make_process(make_steps(60, data_wait=0.01)))
    )
    yield make_patient(gpus=[make_gpu(power_limit=150.0)], host=make_host(), packages=make_packages())
    yield script_patient("import torch\nmodel = torch.nn.Linear(2, 2)\nfor x in data:\n    model(x).sum().item()\n")


def test_a_check_of_the_index_answers_as_its_class_does(tmp_path):
    for patient in patients(tmp_path):
        now = run_checks(patient, INDEXED.values(), {})
        for outcome, expected in zip(now, run_checks(patient, CLASSES.values(), {}), strict=True):
            assert outcome == expected, patient.kind


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with one check, and the list of the times that its classes were asked for."""
    (tmp_path / "acme_checks").mkdir()
    (tmp_path / "acme_checks" / "__init__.py").write_text("")
    (tmp_path / "acme_checks" / "noise.py").write_text(CHECK)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "acme_checks"
    for name in ("acme_checks", "acme_checks.noise"):
        sys.modules.pop(name, None)


def asked(times):
    def classes():
        from acme_checks.noise import Noise

        times.append(1)
        return (Noise,)

    return indexed("acme_checks", classes)


def test_a_module_is_imported_when_its_check_has_something_to_read(package):
    asked(times := [])
    sys.modules.pop("acme_checks.noise")
    [check] = asked(times)
    [outcome] = run_checks(make_patient(kind=PatientKind.LOG), [check], {})
    assert (outcome.reason, "acme_checks.noise" in sys.modules) == ("the host was not given", False)
    [outcome] = run_checks(make_patient(host=make_host()), [check], {})
    assert (outcome.reason, "acme_checks.noise" in sys.modules) == ("quiet", True)
    assert times == [1]


@pytest.mark.parametrize("change", ["edited", "added", "broken"])
def test_the_index_is_made_again_when_a_file_has_changed(package, change):
    asked(times := [])
    if change == "edited":
        (package / "noise.py").write_text(CHECK.replace("> 4", "> 5"))
    elif change == "added":
        (package / "other.py").write_text("")
    else:
        (package / INDEX).write_bytes(b"cut")
    asked(times)
    asked(times)
    assert times == [1, 1]
