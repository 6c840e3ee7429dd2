"""The same in plain Python: MemoryError."""

import resource

from job import Job, main


class Hoarder(Job):
    def setup(self) -> None:
        super().setup()
        self.cache: list[bytearray] = []

    def after_step(self, loss: float) -> None:
        if not self.victim:
            return
        if self.step == self.options.at // 2:
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 400_000_000, resource.RLIM_INFINITY))
        if self.step > self.options.at // 2:
            self.cache.append(bytearray(64_000_000))


main(Hoarder)
