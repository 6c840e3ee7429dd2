"""`gpudoctor mcp`: a server of the Model Context Protocol on standard input and output, for coding agents."""

import argparse
import sys
from importlib.util import find_spec

from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template

EPILOG = template("""\
examples:
  gpudoctor setup --agent claude                     register the server with an agent, and its skill
  uvx --from './gpudoctor[mcp]' gpudoctor mcp          what an agent starts
Tools: check, estimate, run, verify, apply, watch, autopsy, preflight, report, compare, explain, list, more.
The server needs the extra `mcp` and no torch. It starts only commands that a call names.""")
INSTALL = say("pip install 'mcp>=2'")


def configure(parser: argparse.ArgumentParser) -> None:
    """No flags."""
    parser.usage = "gpudoctor mcp"
    parser.epilog = EPILOG


def run(_arguments: argparse.Namespace) -> int:
    """Serve until the agent closes standard input. Raises `UsageError` without the package."""
    if find_spec("mcp") is None:
        raise UsageError(
            "the package mcp is not installed in {prefix}; install it: {install}", prefix=sys.prefix, install=INSTALL
        )
    from gpudoctor.agents.protocol import serve

    serve()
    return 0
