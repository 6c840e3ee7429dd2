"""The CPUs of a rank: those of the run where one was recorded, else those of this machine."""

import pytest
from recordings import make_recording

from gpudoctor.analysis.workload import cpus_per_rank
from gpudoctor.model import Unavailable
from gpudoctor.testing import make_host, make_patient

FACTS = {"cpus": 6, "machine_cpus": 64}


def test_a_recording_of_another_machine_keeps_its_cpus():
    here = make_patient(host=make_host(cpus_affinity=2, cpu_quota=None))
    there = make_patient(host=make_host(), recording=make_recording(machine_facts=FACTS))
    alone = make_patient(recording=make_recording(machine_facts=FACTS))
    assert cpus_per_rank(here)[0] == 2
    assert cpus_per_rank(there) == cpus_per_rank(alone) == (6.0, "6 CPUs for 1 process")


@pytest.mark.parametrize("facts", [{}, {"cpus": None}, {"cpus": 0}])
def test_what_was_not_recorded_is_not_known(facts):
    with pytest.raises(Unavailable):
        cpus_per_rank(make_patient(recording=make_recording(machine_facts=facts)))
