"""Older releases of nvidia-ml-py, made of the present one: what came later is hidden, what was otherwise is put back.

The facts were read from the releases themselves (`pip download --no-deps nvidia-ml-py==X`, then the `def` and `class`
lines of pynvml.py), in November 2026; nothing of them is kept here.
"""

import importlib.util
from pathlib import Path

_LATER = ("nvmlDeviceGetMarginTemperature", "nvmlDeviceGetTemperatureV")

LACKS: dict[str, tuple[str, ...]] = {"12.550.52": _LATER, "present": ()}
"""Release to the names, of those that gpudoctor uses, that it does not have."""


def older_binding(folder: Path, release: str) -> Path:
    """A folder with a module `pynvml` of that release; to stand first on a search path."""
    found = importlib.util.find_spec("pynvml")
    assert found is not None and found.origin is not None
    text = f"""
import importlib.util as _util
import sys as _sys
_spec = _util.spec_from_file_location("_present_pynvml", {found.origin!r})
_real = _sys.modules["_present_pynvml"] = _util.module_from_spec(_spec)
_spec.loader.exec_module(_real)
globals().update({{name: value for name, value in vars(_real).items() if not name.startswith("__")}})
for _name in {LACKS[release]!r}:
    globals().pop(_name)
"""
    place = folder / f"binding-{release}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "pynvml.py").write_text(text)
    return place
