"""Answers GPU005 pcie-degraded."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Code, Finding, Patient, Remedy, Rule, Severity
from gpudoctor_checks.hardware.pcie_degraded import PcieDegradedDetail
from gpudoctor_rules.hardware import actions


class PcieDegradedRule(Rule):
    """Hands on card and slot; no number for the effect, which depends on the traffic."""

    answers = Code("GPU005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        ratio = finding.detail_of(PcieDegradedDetail).ratio
        wins = say(", up to {ratio:.0f}x the bandwidth between host and GPU", ratio=ratio) if ratio is not None else ""
        if finding.severity is Severity.NOTE:
            yield actions.inspect(
                self.answers,
                say("move {gpu} to the x16 slot, if the board has a free one{gain}", gpu=finding.subject, gain=wins),
                say("Boards that split 16 lanes between two slots say so in their manual."),
            )
            return
        away = actions.leave_out(
            self.answers, finding, patient, say("{subject} has a degraded PCIe link", subject=finding.subject)
        )
        if away is not None:
            yield away
        yield actions.inspect(
            self.answers,
            say("reseat {gpu}{gain}", gpu=finding.subject, gain=wins),
            "sudo lspci -vv -d 10de: | grep -E 'LnkCap:|LnkSta:'   # the link's capability and its state",
            say("Reseat the card; check riser, cable and the slot's setting in the BIOS."),
            say("When it stays so on this slot with another card, the slot or the switch is at fault."),
        )
