"""The remedy of what a framework's loop does too often: the setting that says how often."""

from gpudoctor.analysis.source.trainer_periods import FIELDS, OVERRIDES
from gpudoctor.model import Applicability, Edit, Effort, Remedy


def by_setting(code: str, setting: tuple[str, str], kind: str, every: int, edits: tuple[Edit, ...]) -> Remedy:
    """The setting with its number, written by an edit where the program writes it; `kind` as in `FIELDS`."""
    title, step = setting
    field = next((name for name in (*FIELDS.values(), *OVERRIDES) if title.startswith(f"{name}=")), "")
    override = OVERRIDES.get(field)
    written = field == FIELDS[kind] and bool(edits)
    return Remedy(
        id=f"{code}-setting",
        title=title,
        steps=(step,),
        # Other checkpoints are left behind; evaluations without a period of their own follow the log's.
        applicability=Applicability.UNSAFE if written else Applicability.DISPLAY_ONLY,
        effort=Effort.SETTING,
        override=((override, str(every)),) if override is not None else (),
        sets=((f"{kind}_period", str(every)),),
        edits=edits if written else (),
    )
