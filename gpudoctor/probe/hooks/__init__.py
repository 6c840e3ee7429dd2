"""What the probe listens to, a topic a module; each has `install(probe)`.

A module here gets all it needs from the `Probe` that is handed to it and imports nothing of the user's:
torch and its friends are found in `sys.modules` once they have been imported.
"""
