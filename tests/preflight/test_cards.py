"""Nodes with cards: who measures which, copies and all-reduce inside a node, the code for cards on a pretended one."""

import time
from types import SimpleNamespace

import pytest
from preflight_ranks import examine

from gpudoctor.preflight.measure import card

CARDS = {"STANDIN_CARDS": "2"}


def test_one_rank_on_a_node_works_all_its_cards():
    found = examine({0: {"environment": CARDS}}, within=60).found
    assert [(unit["local"], unit["device"], unit["bus_id"][:8]) for unit in found["units"]] == [
        (0, "cuda", "00000000"),
        (1, "cuda", "00000001"),
    ]
    inside = [test for test in found["tests"] if test["stage"] == "node"]
    copies = [test["units"] for test in inside if test["figures"][0]["quantity"] == "peer_bandwidth"]
    assert copies == [[[0, 0], [0, 1]], [[0, 1], [0, 0]]]
    together = [test for test in inside if len(test["figures"]) > 1]
    assert [test["round"] for test in together] == [0]
    assert found["backend"] == "nccl"


class Mark:
    """An event of a device that is the CPU."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return max(1e-3, (end.at - self.at) * 1e3)


@pytest.mark.slow
def test_a_cards_products_memory_and_transfers_on_a_device_that_pretends(monkeypatch):
    torch = pytest.importorskip("torch")
    cpu = torch.device("cpu")
    monkeypatch.setattr(card, "_device", lambda *_: cpu)
    monkeypatch.setattr(card, "_is_cpu", lambda _: False)
    for name, value in {"CARD_SIDE": 64, "CARD_COPY": 1 << 16, "HOST_COPY": 1 << 16, "DIGEST_SIDE": 64}.items():
        monkeypatch.setattr(card, name, value)
    known = SimpleNamespace(
        name="NVIDIA H100", pci_bus_id=27, pci_domain_id=0, pci_device_id=0, uuid="1234", total_memory=1 << 36
    )
    monkeypatch.setattr(card, "describe", lambda *_: {"device": "cuda", "name": known.name, "uuid": "GPU-1234"})
    for name, value in {
        "Event": Mark,
        "set_device": lambda _: None,
        "get_device_capability": lambda _: (9, 0),
        "get_device_properties": lambda _: known,
        "mem_get_info": lambda _: (1 << 36, 1 << 36),
        "synchronize": lambda *_: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    answer = card.examine({"device": "cuda", "local": 0, "seconds": 0.2}, {})
    found = [(item["quantity"], item.get("dtype", "")) for item in answer["figures"]]
    assert found == [
        ("matmul", "bf16"), ("memory_bandwidth", ""), ("host_to_device", ""), ("device_to_host", ""),
    ]  # fmt: skip
    assert all(item["value"] > 0 for item in answer["figures"])
    assert {name: len(set(values)) for name, values in answer["digests"].items()} == {"bf16 64": 1}


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_products_of_whole_numbers_are_exact_on_a_card(name):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no card here")
    device = torch.device("cuda", 0)
    product = card._multiplier(torch, device, name, 64)()
    most = {"fp16": 15}.get(name, 127)
    numbers = torch.Generator().manual_seed(7)
    a, b = (torch.randint(-most, most + 1, (64, 64), generator=numbers, dtype=torch.int16) for _ in range(2))
    assert torch.equal(product.cpu(), (a.float() @ b.float()).to(product.dtype))
    assert card._product(torch, device, name, 0.2)["value"] > 1e12
    assert len(set(card._digests(torch, device, name))) == 1
