"""Which calls are work when they are made for every item: the tables behind `items`."""

# Longest prefix wins. Names of libraries whose calls read, decode or transform one item.
HEAVY: tuple[tuple[str, str], ...] = (
    ("PIL.Image.open", "reads an image file"),
    ("PIL.ImageFilter", "filters an image"),
    ("PIL.ImageEnhance", "augments an image"),
    ("PIL.ImageOps", "augments an image"),
    ("cv2.imread", "reads an image file"),
    ("cv2.", "processes an image"),
    ("imageio.", "reads an image file"),
    ("skimage.", "processes an image"),
    ("kornia.", "augments an image"),
    ("albumentations.", "augments an image"),
    ("torchvision.io.", "reads an image file"),
    ("torchvision.transforms.functional.", "transforms an image"),
    ("torchvision.transforms.v2.functional.", "transforms an image"),
    ("torchvision.datasets.folder.", "reads an image file"),
    ("torchaudio.", "reads or transforms audio"),
    ("librosa.", "reads or transforms audio"),
    ("soundfile.", "reads audio"),
    ("decord.", "decodes video"),
    ("av.", "decodes video"),
    ("pydicom.", "reads a medical image"),
    ("nibabel.", "reads a medical image"),
    ("SimpleITK.", "reads a medical image"),
    ("rasterio.", "reads a raster file"),
    ("h5py.", "opens an HDF5 file"),
    ("zarr.", "opens an array file"),
    ("lmdb.", "opens a database"),
    ("sqlite3.", "queries a database"),
    ("numpy.load", "reads an array file"),
    ("numpy.fromfile", "reads an array file"),
    ("numpy.genfromtxt", "parses a text file"),
    ("numpy.loadtxt", "parses a text file"),
    ("numpy.fft.", "computes a Fourier transform"),
    ("numpy.linalg.", "solves linear algebra"),
    ("scipy.", "computes with SciPy"),
    ("pandas.read_", "parses a table file"),
    ("pyarrow.", "reads a table file"),
    ("json.load", "parses JSON"),
    ("orjson.loads", "parses JSON"),
    ("ujson.load", "parses JSON"),
    ("yaml.", "parses YAML"),
    ("csv.", "parses a CSV file"),
    ("xml.", "parses XML"),
    ("pickle.load", "unpickles an object"),
    ("joblib.load", "unpickles an object"),
    ("torch.load", "reads a tensor file"),
    ("safetensors.", "reads a tensor file"),
    ("torch.fft.", "computes a Fourier transform"),
    ("torch.stft", "computes a Fourier transform"),
    ("torch.nn.functional.interpolate", "resamples a tensor"),
    ("gzip.", "decompresses"),
    ("zlib.", "decompresses"),
    ("lzma.", "decompresses"),
    ("bz2.", "decompresses"),
    ("zstandard.", "decompresses"),
    ("base64.", "decodes base64"),
    ("open", "opens a file"),
    ("builtins.open", "opens a file"),
    ("io.open", "opens a file"),
    ("requests.", "fetches over the network"),
    ("urllib.", "fetches over the network"),
    ("time.sleep", "sleeps"),
    ("sentencepiece.", "tokenises text"),
    ("tokenizers.", "tokenises text"),
    ("tiktoken.", "tokenises text"),
    ("spacy.", "tokenises text"),
    ("nltk.", "tokenises text"),
    ("jieba.", "tokenises text"),
)
EXACT = frozenset({"open", "time.sleep", "torch.load", "numpy.load"})
METHODS = {
    "encode_plus": "tokenises text",
    "batch_encode_plus": "tokenises text",
    "tokenize": "tokenises text",
    "apply_chat_template": "tokenises text",
    "read_bytes": "opens a file",
    "read_text": "opens a file",
    "imread": "reads an image file",
    "read_csv": "parses a table file",
}
TOKENISES = (".__call__", ".encode", ".encode_plus", ".batch_encode_plus", ".tokenize", ".apply_chat_template")
"""Methods of a tokenizer that tokenise; `pad` only pads."""
PARTS = (
    ("tokenizer", "tokenises text"),
    ("augment", "augments the data"),
    ("transform", "applies a transform"),
    ("preprocess", "calls a preprocessor"),
    ("processor", "calls a processor"),
    ("feature_extractor", "extracts features"),
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
RANDOM = frozenset({"randn", "rand", "normal", "uniform", "standard_normal", "random"})
MIN_PASSES = 8  # a `for` over fewer literal passes is bookkeeping, not work
