"""The job goes on from a checkpoint of a narrower model."""

import torch
from job import WIDTH, Job, Model, log, main


class Resumes(Job):
    def build(self) -> torch.nn.Module:
        model = super().build()
        path = self.folder / "narrow.pt"
        if self.rank == 0:
            torch.save({"model": Model(WIDTH // 2).state_dict()}, path)
        torch.distributed.barrier()
        log.info("resuming from %s", path)
        model.load_state_dict(torch.load(path)["model"])
        return model


main(Resumes)
