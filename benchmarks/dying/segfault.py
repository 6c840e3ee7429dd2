"""One rank calls native code with a pointer that is not one; faulthandler is on."""

import ctypes
import faulthandler

from job import Job, main


class Native(Job):
    def setup(self) -> None:
        faulthandler.enable()
        super().setup()

    def after_step(self, loss: float) -> None:
        if self.victim and self.step == self.options.at:
            self.fused_kernel(0)

    def fused_kernel(self, address: int) -> None:
        ctypes.memset(address, 0, 64)


main(Native)
