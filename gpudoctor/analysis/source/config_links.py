"""Which DeepSpeed config belongs to which training arguments.

Two files are compared only when something links them: one names the other, the script or the launch line names
both, or they are the only two of their kinds that the user named.
"""

import os
import posixpath
from collections.abc import Iterable, Iterator

from gpudoctor.analysis.source.declared_settings import Setup
from gpudoctor.analysis.source.training_arguments import deepspeed_configs, option_words, read_by, training_arguments
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.job import Launch
from gpudoctor.model.unavailable import optional


@frozen(eq=False)
class Link:
    """Training arguments and the DeepSpeed config that they run with."""

    arguments: Setup
    deepspeed: Setup
    sure: bool
    """False when they are only the two that were named together."""


def links(patient: Patient) -> list[Link]:
    """Training arguments with their DeepSpeed configs, in a program whose arguments transformers may read."""
    source = optional(lambda: patient.source)
    if not read_by(ConfigKind.HUGGINGFACE, source):
        return []
    arguments, engines = training_arguments(patient), deepspeed_configs(patient)
    if source is not None and any(any(script.calls_to("deepspeed.initialize")) for script in source.scripts):
        # Nobody compares the options of such a program with the config, or fills in "auto".
        arguments = [one for one in arguments if one.call is not None]
    found: list[Link] = []
    for one in arguments:
        engine = _named(one, engines)
        if engine is not None:
            found.append(Link(arguments=one, deepspeed=engine, sure=True))
    job = optional(lambda: patient.job)
    for launch in job.launches if job is not None else ():
        found += _linked_by_launch(patient, launch, arguments, engines)
    if not found:
        found += _only_pair(patient, arguments, engines)
    unique = {(id(item.arguments), id(item.deepspeed)): item for item in reversed(found)}
    return list(reversed(unique.values()))


def _named(one: Setup, engines: list[Setup]) -> Setup | None:
    """The DeepSpeed config that the arguments name, or hold."""
    item = one.get("deepspeed")
    if item is None or not item.known or not isinstance(item.value, str):
        return None
    return same_file(item.value, one.path, engines)


def same_file(name: str, beside: str, setups: list[Setup]) -> Setup | None:
    """The setup of the file that a name means, written in `beside`; None where no such file was read."""
    path = named_path(name, beside, [item.path for item in setups if item.file is not None])
    return next((item for item in setups if item.file is not None and item.path == path), None)


def named_path(name: str, beside: str, paths: Iterable[str]) -> str | None:
    """The path that a name in `beside` means: in its folder or one above; elsewhere is another program's."""
    known = {_plain(path): path for path in paths}
    folder = posixpath.dirname(_plain(beside))
    while (found := known.get(_plain(posixpath.join(folder, name)))) is None and folder != posixpath.dirname(folder):
        folder = posixpath.dirname(folder)
    return found or known.get(_plain(name))


def _plain(path: str) -> str:
    return os.path.abspath(path).replace("\\", "/")


def _linked_by_launch(patient: Patient, launch: Launch, arguments: list[Setup], engines: list[Setup]) -> Iterator[Link]:
    engine = launched_engine(patient, launch, engines)
    if engine is None:
        return
    for one in arguments:
        words = one.path == (launch.path or "") and one.file is None and one.script is None
        named_words = [str(launch.script)] if one.script is not None else launch.arguments
        given = any(named_path(word, launch.path or "", [one.path]) for word in named_words if "." in word)
        if (words and one.line == (launch.line or 1)) or (given and (one.script or one.file) is not None):
            yield Link(arguments=one, deepspeed=engine, sure=True)


def launched_engine(patient: Patient, launch: Launch, engines: list[Setup]) -> Setup | None:
    """The DeepSpeed config that a launch line names, itself or through accelerate's config file."""
    words = option_words(launch.arguments)
    name = words.get("deepspeed") or words.get("deepspeed_config") or words.get("ds_config")
    if not name and launch.launcher == "accelerate":
        file = launched_accelerate(patient, launch)
        entry = file.entries.get("deepspeed_config.deepspeed_config_file") if file is not None else None
        name = str(entry.value) if entry is not None else launch.told.get("engine", "")
    return same_file(name, launch.path or "", engines) if name else None


def launched_accelerate(patient: Patient, launch: Launch) -> ConfigFile | None:
    """The accelerate config that a launch line names; the only one that the user named, when it names none."""
    configs = optional(lambda: patient.configs)
    files = configs.of(ConfigKind.ACCELERATE) if configs is not None else ()
    name = launch.told.get("config")
    path = named_path(name, launch.path or "", [file.path for file in files]) if name else None
    return next((file for file in files if file.path == path), None)


def _only_pair(patient: Patient, arguments: list[Setup], engines: list[Setup]) -> Iterator[Link]:
    """The two that the user named, when there is one of each and nothing says otherwise."""
    named_arguments = [item for item in arguments if named(patient, item.path)]
    named_engines = [item for item in engines if named(patient, item.path) and item.kind is ConfigKind.DEEPSPEED]
    if len(named_arguments) != 1 or len(named_engines) != 1:
        return
    one, engine = named_arguments[0], named_engines[0]
    item = one.get("deepspeed")
    if item is not None and item.known and item.value is not None:
        return  # it names another one
    yield Link(arguments=one, deepspeed=engine, sure=False)


def named(patient: Patient, path: str) -> bool:
    """Whether the user named this file, and not a folder that it stands in. Without targets every file is."""
    wanted = posixpath.normpath(path)
    return not patient.targets or any(
        posixpath.normpath(target) == wanted or wanted.endswith("/" + posixpath.normpath(target).lstrip("./"))
        for target in patient.targets
        if "." in posixpath.basename(target)
    )


def world_size(patient: Patient) -> int | None:
    """Ranks of the whole job, where one launch line says so."""
    job = optional(lambda: patient.job)
    sizes = {
        launch.ranks_per_node * (launch.nodes or 1)
        for launch in (job.launches if job is not None else ())
        if launch.ranks_per_node and launch.trains
    }
    return sizes.pop() if len(sizes) == 1 else None
