"""One rank's shard is shorter: it leaves the loop and ends well, and the others wait for it."""

from job import Job, log, main


class OneEpoch(Job):
    def batches(self):
        yield from self.loader(self.dataset())

    def train(self) -> None:
        try:
            super().train()
        except StopIteration:
            log.info("end of the epoch after %d steps", self.step - 1)

    def run(self) -> None:
        self.setup()
        self.train()
        log.info("rank %d is done", self.rank)


main(OneEpoch)
