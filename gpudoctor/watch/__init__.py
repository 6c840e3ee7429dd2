"""A watch: ticks of a live process, or of a recorded one, each with its examination."""
