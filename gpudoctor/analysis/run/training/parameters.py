"""The card's line on parameters: how many are trained, and in which types."""

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Recording
from gpudoctor.text import number, percent


def parameters(recording: Recording) -> CardLine | None:
    """Elements of the model with most of them, of the first rank that tells."""
    models = [item for process in recording.ranks[:1] for item in process.of("model")]
    model = max(models, key=lambda item: int(item.get("parameters") or 0), default=None)
    if model is None or not (total := int(model.get("parameters") or 0)):
        return None
    trained = int(model.get("trainable") or 0)
    types = [str(name) for name, _ in sorted((model.get("dtypes") or {}).items(), key=lambda item: -item[1])]
    text = say(
        "{trained} of {total} elements trained ({share}); {types}",
        trained=number(trained),
        total=number(total),
        share=percent(trained / total),
        types=concatenated(", ", types),
    )
    return CardLine(name="parameters", text=text, facts={"trained": trained, "total": total, "types": types})
