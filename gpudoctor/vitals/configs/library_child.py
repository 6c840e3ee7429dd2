"""Runs in the target's interpreter: gives settings to the library's own class and prints what it answers.

Started by its path, with the standard library alone. Questions come as one JSON list; each answer leaves as a line of
JSON at once, so that those before a hang are kept.
"""

import importlib
import inspect
import json
import os
import re
import sys
import warnings
from typing import Any

MACHINE = re.compile(
    r"(?i)\b(cuda|gpus?|npus?|xpus?|mps|hpus?|tpus?|cpus?|ampere|devices?|backends?|drivers?|hardware|install\w*"
    r"|network|offline|not found|no such file)\b"
)
"""Words of an error that only the job's own machine can settle."""


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """What the class takes, and for each number of processes the error with which it refuses."""
    target, values = found(question["reader"]), question["values"]
    among = [target, *(family(question["family"]) if question["choice"] and question["family"] else ())]
    covered = [len(values.keys() & inspect.signature(item).parameters.keys()) for item in among]
    if max(covered) > covered[0] and covered.count(max(covered)) == 1:
        target = among[covered.index(max(covered))]
    refused = {}
    for ranks in question["ranks"]:
        if isinstance(getattr(target, "world_size", None), property):
            target.world_size = property(lambda _, ranks=ranks: ranks)  # type: ignore[misc]
        unknown, refused[ranks] = built(target, question)
    # A checkout that is worked on changes without a new version.
    lasts = "-packages" in inspect.getfile(target)
    return {"unknown": unknown, "refused": {ranks: text for ranks, text in refused.items() if text}, "lasts": lasts}


def found(name: str) -> Any:
    """The class or function of this dotted name."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def family(package: str) -> list[Any]:
    """The package's own config classes: a file's keys tell which of them reads it."""
    try:
        module = importlib.import_module(package)
        found = [getattr(module, name) for name in dir(module) if name.endswith("Config")]
    except Exception:  # noqa: BLE001  # one that does not fit the other libraries says nothing of them
        return []
    return [item for item in found if inspect.isclass(item)]


def built(target: Any, question: dict[str, Any]) -> tuple[list[str], str]:
    """The names that the class does not have, and the error that the others raise."""
    values, how = question["values"], question["how"]
    parameters = inspect.signature(target).parameters.values()
    takes_all = how or any(item.kind is item.VAR_KEYWORD for item in parameters)
    names = values.keys() | question["fixed"].keys() if takes_all else {item.name for item in parameters}
    kept = {name: value for name, value in {**values, **question["fixed"]}.items() if name in names}
    if how == "file":
        with open("config.json", "w", encoding="utf-8") as stream:
            json.dump(kept, stream)
    try:
        target(**kept) if not how else target(kept if how == "mapping" else "config.json")
    except (ImportError, OSError, NotImplementedError):
        return [], ""
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return sorted(values.keys() - names), "" if MACHINE.search(str(error)) else str(error) or type(error).__name__
    return sorted(values.keys() - names), ""


def main() -> None:
    """Answer all questions."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    for question in json.load(sys.stdin):
        try:
            said = answer(question)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            said = {"absent": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(said) + "\n")
        out.flush()
    os._exit(0)  # without what the libraries do at the end


if __name__ == "__main__":
    main()
