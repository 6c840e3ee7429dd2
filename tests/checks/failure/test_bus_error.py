from looks import FAILED, died, look_of, remedies_of
from recordings import make_process, make_recording

from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_host, make_patient
from gpudoctor_checks.failure.bus_error import BusError
from gpudoctor_rules.advice import advice

look, remedies = look_of(BusError), remedies_of(advice("failure"))


def test_sick_a_small_shared_memory():
    patient = make_patient(
        recording=make_recording(make_process(clean=False), end=RunEnd(exit_code=135, signal="SIGBUS")),
        host=make_host(shm_total=64 << 20),
    )
    [finding] = examine(BusError, patient)
    assert "64 MiB" in finding.message and "--shm-size" in remedies(finding)


def test_sick_by_its_words():
    [finding] = look(
        died("RuntimeError", "unable to open shared memory object </torch_1> in read-write mode"), end=FAILED
    )
    assert finding.span.line == 41


def test_healthy_ends():
    assert look(make_process()) == []
    assert look(make_process(clean=False), end=RunEnd(exit_code=137, signal="SIGKILL")) == []
