"""Prints what gpudoctor says about each made-up machine of the fake NVML: scenario, survey, findings.

    python benchmarks/nvml_scenarios.py [--messages]

Needs a C compiler and no GPU. Exit code 1 when a scenario raises other findings than it should.
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

from fake_nvml import SCENARIOS, compiler
from fake_nvml import run as fake

from gpudoctor.model.signs.gpu import GpuSurvey


def summary(seen: GpuSurvey) -> str:
    """The survey in a few words."""
    parts = [seen.driver.value]
    if seen.gpus:
        parts.append(f"{len(seen.gpus)} x {seen.gpus[0].name.removeprefix('NVIDIA ')}")
    parts += [f"{gpu.label} {gpu.cause}" for gpu in seen.lost]
    return ", ".join(parts)


def main() -> int:
    """Print the table."""
    if compiler() is None:
        print("no C compiler to build the fake driver with")
        return 3
    wrong = 0
    print(f"{'scenario':<38}{'survey':<52}{'ms':>6}  findings")
    with tempfile.TemporaryDirectory() as folder:
        for number, scenario in enumerate(SCENARIOS):
            start = time.perf_counter()
            seen = fake.survey(scenario, Path(folder) / str(number), Path(folder))
            milliseconds = (time.perf_counter() - start) * 1000
            found = fake.findings(scenario, seen)
            codes = fake.codes(found)
            mark = "" if codes == scenario.findings else f"   EXPECTED {', '.join(scenario.findings) or 'none'}"
            wrong += bool(mark)
            row = f"{scenario.name:<38}{summary(seen)[:51]:<52}{milliseconds:>6.0f}"
            print(f"{row}  {', '.join(codes) or '-'}{mark}")
            if "--messages" in sys.argv:
                for finding in found:
                    print(f"      {finding.message}")
                    for rule in fake.rules_for(finding):
                        for remedy in rule().prescribe(finding, fake.patient(scenario, seen)):
                            print(f"        -> {remedy.title}  [{remedy.effort.value}]")
    print(f"{len(SCENARIOS)} scenarios, {wrong} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
