"""One rank waits for a lock that nobody gives back; the others wait for it in the gradient all-reduce."""

import time

from job import Job, log, main


class Locked(Job):
    def after_step(self, loss: float) -> None:
        if self.victim and self.step == self.options.at:
            lock = self.folder / "cache.lock"
            lock.touch()
            log.info("waiting for %s", lock)
            while lock.exists():
                time.sleep(0.1)


main(Locked)
