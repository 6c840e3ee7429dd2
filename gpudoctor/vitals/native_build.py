"""What compiled packages of the training stack were built against, read from their files; nothing is loaded."""

import ast
import mmap
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from gpudoctor.lang import say
from gpudoctor.model.external_files import load_json, open_file, read_text
from gpudoctor.model.read_limits import PACKAGE_FILE, SCRIPT_CODE, SMALL_JSON
from gpudoctor.model.signs.packages import NativeBuild

_SYMBOL = b"torchCheckFailEPKcS2_jRK"
"""Mangled start of `c10::detail::torchCheckFail`, which every extension that uses TORCH_CHECK imports; its last
argument is a string, whose mangling tells the C++ ABI."""
_FAR = 64 << 20
"""Bytes of a library that are searched; an extension's symbol names stand before its code and kernels."""


def read_native_build(name: str, version: str, site: Path, metadata: Path) -> NativeBuild | None:
    """Facts of a compiled distribution; None for one that is not of the stack."""
    reader = _READERS.get(name)
    return reader(version, site, metadata) if reader else None


def plain_assignments(path: Path) -> dict[str, str | None]:
    """Names bound to a plain string or None at the top of a Python file, parsed and never run."""
    try:
        tree = ast.parse(read_text(path, SCRIPT_CODE, "replace"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, str | None] = {}
    for node in tree.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        value = node.value
        if isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, str)):
            found.update({item.id: value.value for item in targets if isinstance(item, ast.Name)})
    return found


def search_library(path: Path, find: Callable[[mmap.mmap], bytes | None]) -> bytes | None:
    """The result of a search in a mapped file; None when it cannot be read."""
    try:
        with open_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return find(data)
    except (OSError, ValueError):
        return None


def cxx11_abi(path: Path) -> bool | None:
    """Whether a library passes strings to torch in the C++11 ABI; None when it calls nothing that tells."""

    def find(data: mmap.mmap) -> bytes | None:
        place = data.find(_SYMBOL, 0, _FAR)
        return data[place + len(_SYMBOL) : place + len(_SYMBOL) + 16] if place >= 0 else None

    tail = search_library(path, find)
    if tail is None:
        return None
    if tail.startswith(b"NSt7__cxx1112"):
        return True
    return False if tail.startswith(b"Ss") else None


def cuda_of_local(version: str) -> str | None:
    """CUDA of a local version: `2.13.0+cu126` is 12.6, `+cpu` is cpu; None when it does not say."""
    local = version.partition("+")[2]
    if local == "cpu" or local.startswith("cpu."):
        return "cpu"
    match = re.match(r"cu(\d{2})(\d?)", local)
    return (f"{match[1]}.{match[2]}" if match[2] else match[1]) if match else None


def _torch_companion(folder: str) -> Callable[[str, Path, Path], NativeBuild]:
    """torchvision and torchaudio: the version file has the local part that wheels on PyPI leave out."""

    def read(version: str, site: Path, _metadata: Path) -> NativeBuild:
        source = site / folder / "version.py"
        words = plain_assignments(source)
        if "cuda" in words:
            return NativeBuild(cuda=words["cuda"] or "cpu", origin=str(source))
        for stated, origin in (
            (words.get("__version__") or "", str(source)),
            (version, say("version {version}", version=version)),
        ):
            cuda = cuda_of_local(stated)
            if cuda is not None:
                return NativeBuild(cuda=cuda, origin=origin)
        return NativeBuild(origin=str(source))

    return read


def _flash_attention(version: str, site: Path, metadata: Path) -> NativeBuild:
    """flash-attn names torch, CUDA and ABI in its wheel's file name, and shows the ABI in its library."""
    url = ""
    try:
        stated = load_json(read_text(metadata / "direct_url.json", SMALL_JSON, "replace"))
        url = str(stated.get("url", "")) if isinstance(stated, dict) else ""
    except (OSError, ValueError):
        pass
    label = f"{version} {url.rpartition('/')[2]}".replace("%2B", "+").replace("%2b", "+")
    library = next(_files(site, r"flash_attn_2_cuda.*\.so"), None)
    abi = cxx11_abi(library) if library else None
    said = re.search(r"cxx11abi(TRUE|FALSE)", label, re.IGNORECASE)
    torch = re.search(r"torch(\d+\.\d+(?:\.\d+)?)", label)
    cuda = re.search(r"\+cu(\d{2})(\d?)", label)
    return NativeBuild(
        torch=torch[1] if torch else None,
        cuda=(f"{cuda[1]}.{cuda[2]}" if cuda[2] else cuda[1]) if cuda else None,
        cxx11_abi=abi if abi is not None else (said[1].upper() == "TRUE" if said else None),
        origin=str(library) if library and abi is not None else label.strip(),
    )


def _bitsandbytes(_version: str, site: Path, _metadata: Path) -> NativeBuild:
    folder = site / "bitsandbytes"
    names = sorted(path.name for path in _files(folder, r"libbitsandbytes_.*\.so"))
    try:
        loader = read_text(folder / "cextension.py", PACKAGE_FILE, "replace")
    except OSError:
        loader = ""
    return NativeBuild(libraries=tuple(names), nearest="same major" in loader, origin=str(folder))


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    yield from (folder / name for name in names if re.fullmatch(pattern, name))


_READERS: dict[str, Callable[[str, Path, Path], NativeBuild]] = {
    "torchvision": _torch_companion("torchvision"),
    "torchaudio": _torch_companion("torchaudio"),
    "flash-attn": _flash_attention,
    "bitsandbytes": _bitsandbytes,
}
