"""A preflight of an earlier day, read back from the JSON report that it wrote."""

from pathlib import Path

from gpudoctor.model.external_files import load_json, read_file
from gpudoctor.model.plain_data import from_plain
from gpudoctor.model.read_limits import PREFLIGHT_REPORT
from gpudoctor.model.signs.preflight import Preflight
from gpudoctor.model.unavailable import Unavailable


def read_preflight(path: Path) -> Preflight:
    """What the report measured. Raises `Unavailable` with a clause for a file that is none."""
    try:
        report = load_json(read_file(path, PREFLIGHT_REPORT))
    except OSError as error:
        raise Unavailable("{path} cannot be read: {reason}", path=path, reason=error.strerror or error) from error
    except ValueError as error:
        raise Unavailable("{path} is not JSON: {error}", path=path, error=error) from error
    part = report.get("preflight") if isinstance(report, dict) else None
    if not isinstance(part, dict):
        raise Unavailable("{path} is not a report of gpudoctor preflight --format json", path=path)
    try:
        found = from_plain(Preflight, part)
    except (TypeError, ValueError) as error:
        raise Unavailable(
            "{path} has a part that a preflight does not have: {error}", path=path, error=error
        ) from error
    if not {item.node for item in found.units} <= set(range(len(found.nodes))):
        raise Unavailable("{path} has a unit on a node that it does not name", path=path)
    return found
