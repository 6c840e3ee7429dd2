"""Every rank reads with one worker process; the harness kills the worker of one rank."""

import os

from job import BATCH, Job, main
from torch.utils.data import DataLoader


class Workers(Job):
    def loader(self, data):
        def note(worker: int) -> None:
            (self.folder / "workers" / str(self.rank)).write_text(str(os.getpid()))

        return DataLoader(data, batch_size=BATCH, num_workers=1, worker_init_fn=note)


main(Workers)
