"""What `nvidia-smi -q` says of each GPU, from its text or its XML (`-q -x`) in a file.

`blocks` reads either form into trees with the same names, `fields` knows where each reading stands in the
layouts of the drivers, `survey` makes of them what the live driver would have told.
"""
