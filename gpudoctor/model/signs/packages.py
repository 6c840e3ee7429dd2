"""Installed distributions, read from their metadata, and the facts of the torch build."""

from collections.abc import Mapping

from gpudoctor.model.evidence import Setting, SourceSpan
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Reading


@frozen
class NativeBuild:
    """What a compiled package was built against, read from its files without loading them."""

    torch: str | None = None
    """The torch that it was built for, `2.5` or `2.5.1`; None when the files do not say."""
    cuda: str | None = None
    """The CUDA that it was built with, `12` or `12.4`; `cpu` for a build without; None when not said."""
    cxx11_abi: bool | None = None
    """The C++ ABI of its calls into torch; None when not said."""
    libraries: tuple[str, ...] = ()
    """Names of its native libraries where the name tells the build (`libbitsandbytes_cuda128.so`)."""
    nearest: bool = False
    """Whether it falls back to another library of the same CUDA major when the exact one is missing."""
    origin: str = ""
    """The file or version string that says so."""


@frozen
class Distribution:
    """One installed distribution."""

    name: str
    version: str
    """As its metadata says, local part included (`2.13.0+cpu`)."""
    requires: tuple[str, ...]
    location: str
    """The folder on the module path that holds it and its metadata (`.../site-packages`)."""
    metadata: str = ""
    """The metadata folder or file itself (`.../torch-2.13.0.dist-info`)."""
    native: NativeBuild | None = None
    """For compiled packages of the training stack, what they were built against; None for the others."""


@frozen
class Packages:
    """What is installed in one Python environment."""

    prefix: str
    python: str
    executable: str
    distributions: Mapping[str, Distribution]
    """Normalised name to distribution; on a duplicate the one first on the path."""
    duplicates: tuple[Distribution, ...] = ()
    """Distributions shadowed by one of the same name."""

    def version(self, name: str) -> str | None:
        """Version of a distribution by normalised name, or None."""
        found = self.distributions.get(name)
        return found.version if found else None


@frozen
class TorchBuild:
    """What the installed torch was built for, read from its files (or a child process)."""

    version: str
    cuda: str | None
    """CUDA version that it was built with, `12.8`; None for a build without CUDA."""
    hip: str | None
    """ROCm version; None for a build without it."""
    arch_list: Reading[tuple[str, ...]]
    """`sm_80`, `compute_90`...; empty for a CPU build."""
    cxx11_abi: Reading[bool]
    """Whether it was built with the new C++ ABI."""
    path: str


@frozen
class ReaderAnswer:
    """What an installed library's own class says of the settings that it will be given."""

    title: str
    """Whose settings: `train.py:41`, `sft.yaml`."""
    reader: str
    """`trl.GRPOConfig 1.16.0`."""
    place: SourceSpan | Setting
    settings: Mapping[str, SourceSpan | Setting]
    """Each setting by the last part of its name."""
    sure: bool
    """Whether no launch line can change a value."""
    ranks: tuple[int, ...]
    """The numbers of processes that it was asked for: the job's, or some."""
    refused: Mapping[int, str]
    """The library's own error, by the number of processes."""
    unknown: tuple[str, ...] = ()
    """Settings that it does not have."""
