"""Finding the program's own modules: beside the script, in its package, under `src/`."""

import ast
import os
import sys
from collections.abc import Callable, Container

from gpudoctor.analysis.source.syntax import words
from gpudoctor.vitals.source.values import Module

_MODULES = 300
"""Most modules that imports are followed to in one program."""

# Well-known libraries: a folder of that name further up is the library's own checkout, not the user's program.
_LIBRARIES = words(
    "torch torchvision torchaudio transformers accelerate datasets lightning pytorch_lightning deepspeed wandb "
    "numpy pandas scipy sklearn matplotlib tqdm tensorboard tensorboardX peft trl diffusers timm evaluate "
    "tokenizers bitsandbytes triton xformers flash_attn apex tensorflow jax flax keras fastai PIL cv2 yaml "
    "requests"
)


class Importer:
    """Loads modules of the program by their dotted names."""

    def __init__(self, read: Callable[[str, bool], Module | None], texts: Container[str] = ()) -> None:
        self._read = read
        self._texts = texts
        """Paths of files that are read from elsewhere, and may not be there."""
        self.modules: dict[str, Module] = {}
        """By absolute path."""
        self._found: dict[tuple[str, str], Module | None] = {}
        self._followed = 0

    def add(self, module: Module) -> None:
        """A module that is already there."""
        self.modules[module.file] = module
        if not module.name:
            module.name = os.path.splitext(os.path.basename(module.file))[0]

    def load(self, name: str, by: Module) -> Module | None:
        """The module a dotted name means where `by` imports it; None for a library's."""
        if not name or len(name) > 300:
            return None
        key = (name, os.path.dirname(by.file))
        if key not in self._found:
            self._found[key] = None  # a cycle meets this
            self._found[key] = self._locate(name, by)
        return self._found[key]

    def _locate(self, name: str, by: Module) -> Module | None:
        parts = name.split(".")
        if any(not part.isidentifier() for part in parts):
            return None
        for root in self._roots(by, parts[0]):
            base = os.path.join(root, *parts)
            for path in (base + ".py", os.path.join(base, "__init__.py")):
                if os.path.isfile(path) or os.path.realpath(path) in self._texts:
                    return self._open(os.path.abspath(path), name)
        return None

    def _open(self, path: str, name: str) -> Module | None:
        module = self.modules.get(path)
        if module is None and self._followed < _MODULES:
            self._followed += 1
            module = self._read(path, False)
            if module is not None:
                module.name = name
                self.modules[path] = module
        return module

    def _roots(self, by: Module, first: str) -> list[str]:
        folder = os.path.dirname(by.file)
        roots = [folder]
        if first in _LIBRARIES or first in sys.stdlib_module_names:
            return roots
        upper = folder
        for _ in range(6):
            packaged = os.path.isfile(os.path.join(upper, "__init__.py"))
            parent = os.path.dirname(upper)
            if parent == upper:
                break
            if any(os.path.exists(os.path.join(upper, m)) for m in ("pyproject.toml", "setup.py", ".git")):
                break
            upper = parent
            if (
                packaged
                or os.path.isdir(os.path.join(upper, first))
                or os.path.isfile(os.path.join(upper, first + ".py"))
            ):
                roots.append(upper)
        roots += [os.path.join(root, "src") for root in dict.fromkeys([*roots, upper])]
        return list(dict.fromkeys(roots))


def relative_name(module: Module, node: ast.ImportFrom) -> str | None:
    """The name an import statement imports from, relative to the importing file's folder for leading dots."""
    if node.level == 0:
        return node.module
    parts = module.name.split(".")
    is_package = os.path.basename(module.file) == "__init__.py"
    keep = len(parts) - node.level + (1 if is_package else 0)
    if keep < 0:
        return node.module
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])
