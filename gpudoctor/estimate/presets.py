"""Known models by name: a size (`7b`), a family with a size (`llama-3-8b`), a hub id, or an alias."""

import difflib
import re
from functools import cache, lru_cache

from gpudoctor.errors import UsageError
from gpudoctor.estimate.shapes import FIELDS, ModelShape, shape_of
from gpudoctor.estimate.tables import read_table
from gpudoctor.lang import say
from gpudoctor.model.records import frozen

SIZES: dict[str, str] = read_table("names.json")["sizes"]
"""What a bare size is taken for; the answer says so."""
FAMILIES: dict[str, str] = read_table("names.json")["families"]
"""What a family without a size is taken for."""
_MEMORY = "not fetched"
"""In the sources of a row whose widths were written down without its configuration at hand."""
_TUNED = re.compile(
    r"-(?:hf|base|pt|it|instruct|chat|chat-hf|instruct-hf|sft|dpo|gptq|awq|gguf|bnb-4bit|4bit|8bit|int4|int8|text|fp16|bf16"
    r"|\d{4}|v\d+(?:\.\d+)?)$"
)


@frozen
class Preset:
    """A known model."""

    shape: ModelShape
    hub: str
    parameters: int
    """Published or counted parameters: what the shape must add up to."""
    linear: int
    """Weights of linear layers outside the vocabulary matrices, counted likewise."""
    sources: tuple[str, ...]


@frozen
class Lookup:
    """The answer to a name."""

    preset: Preset
    assumption: str = ""
    """What was taken for granted, as a sentence; "" when the name was exact."""


@lru_cache(maxsize=1)
def _rows() -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in read_table("presets.json")["models"]}


@lru_cache(maxsize=1)
def presets() -> dict[str, Preset]:
    """All presets by name, in the order of the file."""
    return {name: preset(name) for name in _rows()}


@cache
def preset(name: str) -> Preset:
    """The preset of this exact name; only this one is built. Raises `KeyError` when there is none."""
    return _preset(_rows()[name])


def _preset(row: dict[str, object]) -> Preset:
    return Preset(
        shape=shape_of({key: value for key, value in row.items() if key in FIELDS}),
        hub=str(row["hub"]),
        parameters=int(row["parameters"]),  # type: ignore[call-overload]
        linear=int(row["linear"]),  # type: ignore[call-overload]
        sources=tuple(row["sources"]),  # type: ignore[arg-type]
    )


@lru_cache(maxsize=1)
def _index() -> dict[str, str]:
    """Every spelling that is exact, to the name of its preset."""
    index: dict[str, str] = {}
    for name, row in _rows().items():
        hub, aliases = str(row["hub"]), row["aliases"]
        for spelling in (name, hub, hub.rsplit("/", 1)[-1], *aliases):  # type: ignore[misc]
            index.setdefault(plain(spelling), name)
    return index


def plain(name: str) -> str:
    """A spelling without what does not tell models apart: case, `meta-`, underscores, spaces before a size."""
    text = name.strip().lower().replace("_", "-").replace(" ", "-")
    return text.removeprefix("meta-").replace("/meta-", "/")


def lookup(name: str) -> Lookup:
    """The model that a name means. Raises `UsageError` with the nearest names when it means none."""
    wanted = plain(name)
    index = _index()
    short = wanted.rsplit("/", 1)[-1]
    for candidate in (wanted, short, *_shorter(short)):
        if candidate in index:
            found = preset(index[candidate])
            return Lookup(preset=found, assumption=_unchecked(found))
    for table, what in ((SIZES, say("size")), (FAMILIES, say("family"))):
        if short in table:
            chosen = table[short]
            return Lookup(
                preset=preset(chosen),
                assumption=say("the {what} {name!r} is taken for {chosen}", what=what, name=name, chosen=chosen),
            )
    prefixed = _one_size_of_a_family(short)
    if prefixed is not None:
        return Lookup(
            preset=preset(prefixed), assumption=say("{name!r} is taken for {prefixed}", name=name, prefixed=prefixed)
        )
    near = difflib.get_close_matches(short, [*index, *SIZES], n=4, cutoff=0.5)
    known = ", ".join(dict.fromkeys(index.get(each, each) for each in near))
    nearest = say("; the nearest known are {nearest}", nearest=known) if known else ""
    raise UsageError(
        "model {name!r} is not known{nearest}. Give a size (7b), a family and size (llama-3-8b), "
        "a config.json or its folder, or --set hidden=N and the like",
        name=name,
        nearest=nearest,
    )


def _unchecked(found: Preset) -> str:
    """What to say of widths that nobody compared with the published configuration."""
    if _MEMORY not in " ".join(found.sources):
        return ""
    return say("nobody checked the widths of {name} against its published configuration", name=found.shape.name)


def _shorter(name: str) -> list[str]:
    """The name without endings that do not change the architecture, longest first."""
    found: list[str] = []
    while True:
        cut = _TUNED.sub("", name)
        if cut == name:
            return found
        name = cut
        found.append(name)


def _one_size_of_a_family(name: str) -> str | None:
    """`qwen-2.5-7b`, `llama3-8b`, `mistral-7b-something`: a preset whose letters and digits begin the name."""
    squeezed = re.sub(r"[^a-z0-9.]", "", name)
    best: str | None = None
    for spelling, name_of in _index().items():
        bare = re.sub(r"[^a-z0-9.]", "", spelling)
        if "/" in spelling or not re.search(r"\d", bare) or len(bare) < 5:
            continue
        follows = squeezed[len(bare) :][:1]
        if squeezed.startswith(bare) and not follows.isdigit() and (best is None or len(bare) > len(best)):
            best, found = bare, name_of
    return found if best is not None else None


def families() -> tuple[str, ...]:
    """Architectures (`model_type`) of which a model is known."""
    return tuple(dict.fromkeys(str(row["family"]) for row in _rows().values()))


def family_shape(family: str) -> ModelShape | None:
    """The first known model of an architecture; None where there is none."""
    name = next((name for name, row in _rows().items() if row["family"] == family), None)
    return preset(name).shape if name is not None else None
