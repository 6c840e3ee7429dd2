"""What `nvidia-smi -q` says of each GPU, from its text in a file.

`blocks` reads it into trees, `fields` knows where each reading stands in the
layouts of the drivers, `survey` makes of them what the live driver would have told.
"""
