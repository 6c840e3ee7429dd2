"""What the probe, the recorder and the readers share: frames, phases, columns of a step, masking.

Standard library only and Python 3.9. It stands in the probe's folder, which is all of gpudoctor that the user's
interpreter loads; the other parts import it from here. What the files hold: docs/recording.md.
"""
