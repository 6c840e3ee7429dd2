"""What is told of training loops, without computation."""

from gpudoctor.model import Effort, advise

ADVICE = (
    advise(
        "LOOP012-shape",
        "{wide}.squeeze(1) in the loss, or {flat}.unsqueeze(1)",
        "give the loss {wide}.squeeze(1) in place of {wide}: both then have the shape of {flat}",
        "write assert {wide}.squeeze(1).shape == {flat}.shape before the loss, so that it stays so",
        effort=Effort.ONE_LINE,
        references=("https://docs.pytorch.org/docs/stable/notes/broadcasting.html",),
    ),
)
