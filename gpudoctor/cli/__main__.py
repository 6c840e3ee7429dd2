"""`python -m gpudoctor.cli`: the same as `python -m gpudoctor`."""

import gpudoctor.__main__  # noqa: F401 - the import runs the command
