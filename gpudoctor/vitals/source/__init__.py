"""The reader of training scripts: `read_source`. It never imports or runs what it reads."""

from gpudoctor.vitals.source.reader import read_source

__all__ = ["read_source"]
