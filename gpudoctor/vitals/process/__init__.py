"""A live process: finding it, attaching to it, and looking at it once a tick without harming it."""
