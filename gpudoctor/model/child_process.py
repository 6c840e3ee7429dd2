"""Python processes of our own: what they run, without the working folder in front of the module search path.

`python -c` and `python -m` search the working folder first: a file `random.py` or a folder `gpudoctor` of
the user's would be run instead. All else is searched as the user's interpreter does it; `-P` does the same from
3.11 on.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the package `gpudoctor`."""
_CODE = (
    "import sys; sys.path[:] = [place for place in sys.path if place] + [{root!r}]; "
    "from {module} import main; sys.exit(main())"
)


def child_code(module: str) -> str:
    """What `python -c` runs so that `main` of a module of ours is the program."""
    return _CODE.format(root=str(ROOT), module=module)
