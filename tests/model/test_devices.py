import pytest

from gpudoctor.model.devices import chosen, job_gpus
from gpudoctor.model.signs.gpu import LostGpu, list_gpus, name_gpus
from gpudoctor.testing import make_gpu, make_patient, make_survey

UUIDS = ("GPU-aaaa1111", "GPU-bbbb2222", "GPU-cccc3333")


def patient(value):
    gpus = [make_gpu(index, uuid=uuid) for index, uuid in enumerate(UUIDS)]
    survey = make_survey(gpus, lost=(LostGpu(index=3, error="GPU is lost"),))
    return make_patient(survey=survey, environment={} if value is None else {"CUDA_VISIBLE_DEVICES": value})


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        ("0,2", {0, 2}),
        (" 1 ", {1}),
        ("GPU-bbbb", {1}),
        ("1,3", {1, 3}),
        (None, None),
        ("", None),
        ("-1", None),
        ("MIG-1", None),
        ("GPU-none", None),
        ("0,7", None),
    ],
)
def test_what_the_variable_chooses(value, indices):
    assert chosen(patient(value)) == indices


def test_the_jobs_gpus_are_all_without_a_choice():
    assert [gpu.index for gpu in job_gpus(patient(None))] == [0, 1, 2]
    assert [gpu.index for gpu in job_gpus(patient("2,0"))] == [0, 2]
    assert [gpu.index for gpu in job_gpus(make_patient(gpus=[make_gpu(0)]))] == [0]


def test_names_of_several():
    gpus = [make_gpu(index) for index in (7, 0, 1, 2, 5, 4)]
    assert name_gpus(gpus) == "GPU 0-2, 4, 5, 7"
    assert list_gpus(gpus) == "0,1,2,4,5,7"
    assert name_gpus([]) == ""
