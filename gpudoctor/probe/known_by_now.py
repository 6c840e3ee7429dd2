"""What is known by now, written down when gpudoctor is about to end the command.

A signal that kills leaves no time for an orderly end. So a file in the recording's folder announces it. Our
thread sees the file, and the training thread writes between two steps.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .clock import PROBE

if TYPE_CHECKING:
    from .probe import Probe

ENDING = "ending"
"""Name of that file."""


class KnownByNow:
    """Writes it once."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._path = os.path.join(probe.identity.folder, ENDING)
        self.renew()

    def renew(self) -> None:
        """In a new process."""
        self._asked = self._answered = False

    def look(self) -> None:
        """From our thread: is the command about to be ended?"""
        self._asked = self._asked or os.path.exists(self._path)

    def ended(self) -> None:
        """A step has ended."""
        if self._asked and not self._answered:
            self._answered = True
            before = self._probe.clock.switch(PROBE)
            self._probe.tell_all()
            self._probe.clock.switch(before)
