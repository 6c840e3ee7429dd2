"""Known classes of exceptions: what their words mean, and what cures them."""

import re
from functools import cache

from gpudoctor.analysis import of_run
from gpudoctor.lang import say, term
from gpudoctor.model.message_files import read_table
from gpudoctor.model.records import frozen, replace


@frozen
class CauseClass:
    """A class of causes."""

    word: str
    pattern: str
    """Searched in `Type: message`, whatever the case."""
    words: str
    """What it means, a clause."""
    cure: str


@cache
def _causes() -> tuple[CauseClass, ...]:
    """The rows of the table."""
    return tuple(
        CauseClass(
            word=row["word"],
            pattern=row["match"] if isinstance(row["match"], str) else "|".join(row["match"]),
            words=term(row["title"]),
            cure=term(row["steps"][0]),
        )
        for row in read_table(__package__, "exception_causes.toml")["cause"]
    )


def cause_of(told: "of_run.DeathMessage") -> CauseClass | None:
    """The class that an exception's words belong to; None where none is known. With numbers, where the recorder
    read which labels or indices it were.
    """
    words = f"{told.kind}: {told.message}"
    found = next((cause for cause in _causes() if re.search(cause.pattern, words, re.IGNORECASE)), None)
    outside = beyond(told)
    return replace(found, words=outside[0], cure=outside[1]) if found and outside else found


def beyond(told: "of_run.DeathMessage") -> tuple[str, str] | None:
    """Labels or indices outside of what there is: which, as a clause, and what cures it; None where unknown."""
    seen = told.record.get("beyond") if told.record is not None else None
    if not seen:
        return None
    least, most, count = int(seen["least"]), int(seen["most"]), int(seen["count"])
    reach = (
        say("reach from {least} to {most}", least=least, most=most) if least < most else say("are {most}", most=most)
    )
    if seen["what"] != "label":
        cure = (
            say(
                "nn.Embedding({most}, ...), a row for each index; after adding tokens "
                "resize_token_embeddings(len(tokenizer))",
                most=most + 1,
            )
            if least >= 0
            else say("Give padding a row of its own (padding_idx) in place of an index below 0")
        )
        return say(
            "The indices {reach}, and the embedding has {count} rows (0 to {last})",
            reach=reach,
            count=count,
            last=count - 1,
        ), cure
    if least >= 1 and most == count:
        cure = say("Give the loss labels - 1: they count from 1, and its classes from 0")
    elif least < 0:
        cure = say(
            "Set ignore_index={least} where that marks places to ignore, or map the labels to 0..{count}",
            least=least,
            count=count - 1,
        )
    else:
        cure = say(
            "Give the last layer {most} outputs, or map the labels to 0..{count}", most=most + 1, count=count - 1
        )
    return say(
        "The labels {reach}, and the loss has {count} classes (0 to {last})", reach=reach, count=count, last=count - 1
    ), cure
