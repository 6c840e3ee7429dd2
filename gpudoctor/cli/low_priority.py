"""The command line in a process of low priority: what examines a run while it lasts."""

import os

_NICE = 10


def main() -> int:
    """`gpudoctor.cli.main`, out of the training's way."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    os.umask(0o077)  # what it writes into the recording nobody else may read
    from gpudoctor.cli import main as command

    return command()
