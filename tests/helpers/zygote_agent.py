"""Forks ranks of an examination that have their modules loaded: 0.4 s of CPU a rank. Requests are zygote.py's."""

import sys

import preflight_agent
from zygote import Main, become, keep, load, serve

if __name__ == "__main__":
    keep()
    asked = serve(load)
    if asked is not None:
        become(asked)
        with Main():
            sys.exit(preflight_agent.main())
