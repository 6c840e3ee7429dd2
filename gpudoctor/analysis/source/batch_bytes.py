"""How many bytes a loader's batch has, where its data set tells: well-known small images, ids of tokens."""

from gpudoctor.analysis.source.loaders import Loader
from gpudoctor.analysis.source.sample_cost import item_work
from gpudoctor.model.signs.source import Known, Source

_GREY, _COLOUR, _FLOAT = 28 * 28, 3 * 32 * 32, 4
_IMAGES = {
    **dict.fromkeys(("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST"), _GREY * _FLOAT),
    **dict.fromkeys(("CIFAR10", "CIFAR100", "SVHN"), _COLOUR * _FLOAT),
    "USPS": 16 * 16 * _FLOAT,
}
"""Bytes of one image of torchvision's data sets, as float32."""
_TOKENS = 3 * 512 * 8
"""Bytes of a text: ids, mask and labels of 512 tokens as int64, the longest that most encoders take."""
_UNTOLD = 128
"""Batch size where only a run can tell."""


def batch_bytes(source: Source, loader: Loader) -> int | None:
    """Bytes of one batch, about; None where the source does not tell what an item is.

    Images that the program resizes have any size.
    """
    work = item_work(source, loader)
    items = [_item_bytes(source, one.call, one.what) for one in work]
    if not items or any(size is None for size in items):
        return None
    given = loader.argument("batch_size", 1)
    rows = given.value if isinstance(given, Known) and isinstance(given.value, int) else _UNTOLD
    return rows * max(size or 0 for size in items)


def _item_bytes(source: Source, call: str, what: str) -> int | None:
    module, _, name = call.rpartition(".")
    if what == "tokenises text":
        return _TOKENS
    if module != "torchvision.datasets" or any("Resize" in script.text for script in source.scripts):
        return None
    return _IMAGES.get(name)
