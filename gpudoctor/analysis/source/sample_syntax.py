"""Questions of syntax that the search for work in items asks."""

import ast
from collections.abc import Mapping

from gpudoctor.analysis.source.syntax import last_name, walk
from gpudoctor.lang import say


def heavy(name: str) -> str | None:
    """What a call by its resolved name does, by the longest matching row; None for cheap ones."""
    fits = (part for part in HEAVY if (name == part if part in EXACT else name.startswith(part)))
    best = max(fits, key=len, default=None)
    return HEAVY[best] if best is not None else None


def works(loop: ast.For | ast.While) -> bool:
    """Whether a loop inside an item goes through numbers: through the pixels, not through a few parts."""
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in walk(loop)):
        return False  # it walks over the items
    if isinstance(loop, ast.While):
        return True
    return isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "range"


def head(loop: ast.For | ast.While) -> str:
    """A loop's head, as written."""
    return f"for ... in {ast.unparse(loop.iter)}" if isinstance(loop, ast.For) else f"while {ast.unparse(loop.test)}"


HEAVY: Mapping[str, str] = {
    name: what
    for what, names in (
        (say("reads an image file"), "PIL.Image.open cv2.imread imageio. torchvision.io. torchvision.datasets.folder."),
        (say("filters an image"), "PIL.ImageFilter"),
        (say("augments an image"), "PIL.ImageEnhance PIL.ImageOps kornia. albumentations."),
        (say("processes an image"), "cv2. skimage."),
        (say("transforms an image"), "torchvision.transforms.functional. torchvision.transforms.v2.functional."),
        (say("reads or transforms audio"), "torchaudio. librosa."),
        (say("reads audio"), "soundfile."),
        (say("decodes video"), "decord. av."),
        (say("reads a medical image"), "pydicom. nibabel. SimpleITK."),
        (say("reads a raster file"), "rasterio."),
        (say("opens an HDF5 file"), "h5py."),
        (say("opens an array file"), "zarr."),
        (say("opens a database"), "lmdb."),
        (say("queries a database"), "sqlite3."),
        (say("reads an array file"), "numpy.load numpy.fromfile"),
        (say("parses a text file"), "numpy.genfromtxt numpy.loadtxt"),
        (say("computes a Fourier transform"), "numpy.fft. torch.fft. torch.stft"),
        (say("solves linear algebra"), "numpy.linalg."),
        (say("computes with SciPy"), "scipy."),
        (say("parses a table file"), "pandas.read_"),
        (say("reads a table file"), "pyarrow."),
        (say("parses JSON"), "json.load orjson.loads ujson.load"),
        (say("parses YAML"), "yaml."),
        (say("parses a CSV file"), "csv."),
        (say("parses XML"), "xml."),
        (say("unpickles an object"), "pickle.load joblib.load"),
        (say("reads a tensor file"), "torch.load safetensors."),
        (say("resamples a tensor"), "torch.nn.functional.interpolate"),
        (say("decompresses"), "gzip. zlib. lzma. bz2. zstandard."),
        (say("decodes base64"), "base64."),
        (say("opens a file"), "open builtins.open io.open"),
        (say("fetches over the network"), "requests. urllib."),
        (say("sleeps"), "time.sleep"),
        (say("tokenises text"), "sentencepiece. tokenizers. tiktoken. spacy. nltk. jieba."),
    )
    for name in names.split()
}
"""Beginnings of the names of calls that read, decode or transform one item; the longest that fits counts."""
EXACT = frozenset({"open", "time.sleep", "torch.load", "numpy.load"})
METHODS: Mapping[str, str] = {
    name: what
    for what, names in (
        (say("tokenises text"), "encode_plus batch_encode_plus tokenize apply_chat_template"),
        (say("opens a file"), "read_bytes read_text"),
        (say("reads an image file"), "imread"),
        (say("parses a table file"), "read_csv"),
    )
    for name in names.split()
}
TOKENISES = (".__call__", ".encode", ".encode_plus", ".batch_encode_plus", ".tokenize", ".apply_chat_template")
"""Methods of a tokenizer that tokenise; `pad` only pads."""
PARTS = (
    ("tokenizer", say("tokenises text")),
    ("augment", say("augments the data")),
    ("transform", say("applies a transform")),
    ("preprocess", say("calls a preprocessor")),
    ("processor", say("calls a processor")),
    ("feature_extractor", say("extracts features")),
)
IN_MEMORY = frozenset(
    {
        *("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST", "CIFAR10", "CIFAR100", "SVHN", "USPS"),
        *("STL10", "SEMEION", "FakeData"),
    }
)
"""torchvision data sets that hold every image in memory, as arrays."""
DEAR = (
    "reads an image file",
    "reads and decodes an image file",
    "decodes an image",
    "augments an image",
    "reads or transforms audio",
    "reads audio",
    "decodes video",
    "reads a medical image",
    "reads a raster file",
    "parses a table file",
    "tokenises text",
)
"""Work of a millisecond or more for one item, whatever the item: a batch of it is felt beside any step."""
CHEAP_TRANSFORMS = frozenset(
    {
        *("Compose", "ToTensor", "Normalize", "Lambda", "PILToTensor", "ConvertImageDtype", "ToDtype"),
        *("ToImage", "ToPILImage"),
    }
)
"""Transforms that only convert."""
PARTITIONS = frozenset({"Subset", "ConcatDataset", "random_split", "ChainDataset", "StackDataset"})
