import pytest

from gpudoctor.model.job_devices import chosen, job_gpus
from gpudoctor.model.signs.gpu import LostGpu
from gpudoctor.model.visible_devices import ListedGpu, visible
from gpudoctor.testing import make_gpu, make_patient, make_survey

UUIDS = ("GPU-aaaa1111", "GPU-bbbb2222", "GPU-cccc3333")


def patient(value, **more):
    gpus = [make_gpu(index, uuid=uuid) for index, uuid in enumerate(UUIDS)]
    survey = make_survey(gpus, lost=(LostGpu(index=3, error="GPU is lost"),))
    variables = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    return make_patient(survey=survey, environment={**variables, **more})


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        ("0,2", {0, 2}),
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


MIXED = (ListedGpu(index=0, name="T400"), ListedGpu(index=1, name="RTX 4090"), ListedGpu(index=2, name="RTX 4090"))
CUT = (
    ListedGpu(index=0, name="A100", uuid="GPU-aaaa", mig=("MIG-1111", "MIG-2222")),
    ListedGpu(index=1, name="A100", uuid="GPU-bbbb", mig=("MIG-3333",)),
)


@pytest.mark.parametrize(
    ("value", "order", "indices"),
    [
        ("0", None, None),  # CUDA's first is the fastest card, NVML's the first on the bus
        ("0,2", "PCI_BUS_ID", (0, 2)),
        ("2,1,0", None, (2, 1, 0)),  # all of them, whatever the order
        (None, None, (0, 1, 2)),
    ],
)
def test_numbers_of_unlike_cards_are_nvmls_by_bus_order_only(value, order, indices):
    assert visible(value, order, MIXED).indices == indices


@pytest.mark.parametrize(("value", "card", "mig"), [("MIG-3333,MIG-1111", 1, "MIG-3333"), ("MIG-4444", None, "")])
def test_a_process_uses_one_mig_device(value, card, mig):
    seen = visible(value, None, CUT)
    assert (seen.count, seen.mig, seen.indices) == ((1, mig, (card,)) if card is not None else (0, "", ()))
    assert bool(seen.fault) is (card is None)


def test_unlike_cards_are_all_the_jobs_where_the_order_is_not_known():
    gpus = [make_gpu(0, name="NVIDIA T400"), make_gpu(1, name="NVIDIA GeForce RTX 4090")]
    unknown = make_patient(gpus=gpus, environment={"CUDA_VISIBLE_DEVICES": "0"})
    assert [gpu.index for gpu in job_gpus(unknown)] == [0, 1]
    by_bus = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert [gpu.index for gpu in job_gpus(make_patient(gpus=gpus, environment=by_bus))] == [0]
