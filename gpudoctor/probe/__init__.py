"""The recorder inside the training process: standard library only, nothing of gpudoctor, Python 3.9 or later.

The user's interpreter loads this folder as the package `_gpudoctor_probe` (site/sitecustomize.py, boot.py),
so it works in an environment that has no gpudoctor. What it writes is docs/recording.md; how it is built is
README.md beside this file.
"""

FORMAT = 1
"""Version of the recording format."""
