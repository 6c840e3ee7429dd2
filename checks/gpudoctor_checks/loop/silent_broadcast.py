"""LOOP012 silent-broadcast."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity, Threshold


class SilentBroadcast(Check):
    """A loss compares every output of a batch with every target.

    What it finds:
        Shapes that broadcast in a loss: outputs (N, 1) and targets (N), or the reverse. The same for images (N,
        1, H, W) and (N, H, W). The loss is `mse_loss`, `l1_loss`, `smooth_l1_loss`, `huber_loss`, or the
        program's own squared or absolute difference, averaged.
    Why it hurts:
        The two broadcast to N times N pairs, and no error is raised. The model can then only learn the mean of
        the targets for every sample. The loss falls a little and plateaus.
    How it knows:
        From a recording: the graph behind the loss shows the shape of the outputs before and after they were
        broadcast. The targets do not appear in the graph of a difference. There its values show that each row
        is the first one, moved. If the targets are not detached, the graph shows both shapes.
    False alarms:
        Outputs that the program itself makes a column (`unsqueeze`, `[:, None]`, `view`) are not findings.
        Neither are differences of outputs with outputs, a matrix of targets, and losses without reduction
        (quantiles). A compiled loss is not seen.
    Remedies:
        Give both one shape: `output.squeeze(1)`, or `target.unsqueeze(1)`.
    References:
        - https://docs.pytorch.org/docs/stable/notes/broadcasting.html
    """

    code = "LOOP012"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            "losses",
            2,
            "{steps}",
            "convention: correctness counts in events; one batch may be a trial of shapes",
            "Fewer such losses in a recording are not findings.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recorded_run
        for process in recording.ranks:
            for record in of_run.numerics(process, "broadcast")[-1:]:
                shapes = sorted(record.get("shapes") or (), key=lambda shape: -int(shape[2]))
                losses = sum(int(item[2]) for item in shapes)
                if losses >= self.limit("losses"):
                    spans = list(dict.fromkeys(spots(patient, *of_run.loss_lines(patient), of_run.place_of(record))))
                    message, detail = _what_met(*shapes[0], where=of_run.at(spans))
                    yield self.finding(
                        message,
                        evidence=(*spans, measured("losses_of_all_pairs", losses, "{steps}", recording)),
                        breaks=say("the model learns the mean of the targets, the same for every sample"),
                        subject=f"{spans[0].path}:{spans[0].line}" if spans else "loss",
                        detail=detail,
                    )
                    return


def _what_met(own: list[int], shape: list[int], _: int, *, where: str) -> tuple[str, Facts]:
    """The shapes that made this one of all pairs, in words: the column's and the row's."""
    many, *rest = map(str, shape[1:])
    wide, flat = f"({', '.join([many, '1', *rest])})", f"({', '.join([many, *rest])})"
    column = len(own) == len(shape)
    outputs, targets = (wide, flat) if column else (flat, wide)
    message = say(
        "The outputs have the shape {outputs} and the targets {targets}. The loss compares each of {many} "
        "outputs with each of {many} targets, {shape:,} pairs{at}.",
        outputs=outputs,
        targets=targets,
        many=many,
        shape=shape[0] * shape[1],
        at=where,
    )
    wide, flat = ("output", "target") if column else ("target", "output")
    return message, Facts(wide=wide, flat=flat)
