"""Questions of syntax that the search for work in items asks."""

import ast

from gpudoctor.analysis.source.syntax import last_name, walk
from gpudoctor.lang import say


def heavy(name: str) -> str | None:
    """What a call by its resolved name does, by the longest matching row; None for cheap ones."""
    best = max(
        (item for item in HEAVY if (name == item[0] if item[0] in EXACT else name.startswith(item[0]))),
        key=lambda item: len(item[0]),
        default=None,
    )
    return best[1] if best else None


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


# Longest prefix wins. Names of libraries whose calls read, decode or transform one item.
HEAVY: tuple[tuple[str, str], ...] = (
    ("PIL.Image.open", say("reads an image file")),
    ("PIL.ImageFilter", say("filters an image")),
    ("PIL.ImageEnhance", say("augments an image")),
    ("PIL.ImageOps", say("augments an image")),
    ("cv2.imread", say("reads an image file")),
    ("cv2.", say("processes an image")),
    ("imageio.", say("reads an image file")),
    ("skimage.", say("processes an image")),
    ("kornia.", say("augments an image")),
    ("albumentations.", say("augments an image")),
    ("torchvision.io.", say("reads an image file")),
    ("torchvision.transforms.functional.", say("transforms an image")),
    ("torchvision.transforms.v2.functional.", say("transforms an image")),
    ("torchvision.datasets.folder.", say("reads an image file")),
    ("torchaudio.", say("reads or transforms audio")),
    ("librosa.", say("reads or transforms audio")),
    ("soundfile.", say("reads audio")),
    ("decord.", say("decodes video")),
    ("av.", say("decodes video")),
    ("pydicom.", say("reads a medical image")),
    ("nibabel.", say("reads a medical image")),
    ("SimpleITK.", say("reads a medical image")),
    ("rasterio.", say("reads a raster file")),
    ("h5py.", say("opens an HDF5 file")),
    ("zarr.", say("opens an array file")),
    ("lmdb.", say("opens a database")),
    ("sqlite3.", say("queries a database")),
    ("numpy.load", say("reads an array file")),
    ("numpy.fromfile", say("reads an array file")),
    ("numpy.genfromtxt", say("parses a text file")),
    ("numpy.loadtxt", say("parses a text file")),
    ("numpy.fft.", say("computes a Fourier transform")),
    ("numpy.linalg.", say("solves linear algebra")),
    ("scipy.", say("computes with SciPy")),
    ("pandas.read_", say("parses a table file")),
    ("pyarrow.", say("reads a table file")),
    ("json.load", say("parses JSON")),
    ("orjson.loads", say("parses JSON")),
    ("ujson.load", say("parses JSON")),
    ("yaml.", say("parses YAML")),
    ("csv.", say("parses a CSV file")),
    ("xml.", say("parses XML")),
    ("pickle.load", say("unpickles an object")),
    ("joblib.load", say("unpickles an object")),
    ("torch.load", say("reads a tensor file")),
    ("safetensors.", say("reads a tensor file")),
    ("torch.fft.", say("computes a Fourier transform")),
    ("torch.stft", say("computes a Fourier transform")),
    ("torch.nn.functional.interpolate", say("resamples a tensor")),
    ("gzip.", say("decompresses")),
    ("zlib.", say("decompresses")),
    ("lzma.", say("decompresses")),
    ("bz2.", say("decompresses")),
    ("zstandard.", say("decompresses")),
    ("base64.", say("decodes base64")),
    ("open", say("opens a file")),
    ("builtins.open", say("opens a file")),
    ("io.open", say("opens a file")),
    ("requests.", say("fetches over the network")),
    ("urllib.", say("fetches over the network")),
    ("time.sleep", say("sleeps")),
    ("sentencepiece.", say("tokenises text")),
    ("tokenizers.", say("tokenises text")),
    ("tiktoken.", say("tokenises text")),
    ("spacy.", say("tokenises text")),
    ("nltk.", say("tokenises text")),
    ("jieba.", say("tokenises text")),
)
EXACT = frozenset({"open", "time.sleep", "torch.load", "numpy.load"})
METHODS = {
    "encode_plus": say("tokenises text"),
    "batch_encode_plus": say("tokenises text"),
    "tokenize": say("tokenises text"),
    "apply_chat_template": say("tokenises text"),
    "read_bytes": say("opens a file"),
    "read_text": say("opens a file"),
    "imread": say("reads an image file"),
    "read_csv": say("parses a table file"),
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
