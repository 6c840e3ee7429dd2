"""What Colab, Kaggle, Jupyter and Databricks say of a notebook whose session or kernel is gone."""

from gpudoctor.model import Bearing, Confidence, LogMessage

NOTEBOOKS = (
    LogMessage(
        kind="oom-kubernetes",
        cue=("using all available ram", "more memory than ", "maximum memory limit", "may have run out of memory"),
        pattern=r"[Yy]our session crashed after using all available RAM|"
        r"[Nn]otebook (?:tried|attempted) to (?:allocate|use) more memory than (?:is|was) available|"
        r"Notebook Exceeded Its Maximum Memory Limit|[Kk]ernel may have run out of memory",
        text="The notebook's session ended because the memory of its host ran out.",
        everywhere=True,
        outside=True,
        closing=True,
        source="Colab, Kaggle, SageMaker Studio, Databricks",
    ),
    LogMessage(
        kind="time-limit",
        cue=("maximum allowed run time", "max allowed execution", "maximum execution time", "reaching its maximum dur"),
        pattern=r"[Nn]otebook .{0,60}exceeded (?:the |its )?(?:maximum allowed run time|max allowed execution|"
        r"maximum execution time)|[Rr]untime has been disconnected .{0,60}reaching its maximum dur",
        text="The notebook's session ended at its time limit.",
        everywhere=True,
        outside=True,
        closing=True,
        source="Kaggle, Colab",
    ),
    LogMessage(
        kind="kernel-died",
        cue=(
            "session crashed for an unknown",
            "session crashed. automatically",
            "appears to have died",
            "kernel crashed while executing",
            "kernel died",
            "kernelrestarter: restarting kernel",
        ),
        pattern=r"[Yy]our session crashed(?: for an unknown reason|\. Automatically restarting)|"
        r"[Kk]ernel(?: for \S{1,200})? appears to have died|The Kernel crashed while executing code|"
        r"\bKernel died\b|KernelRestarter: restarting kernel \(",
        text="The kernel of the notebook died. This log does not say why. Often the memory of the host ran out.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        source="Colab, Jupyter notebook, jupyter_client, nbclient, VS Code, Databricks",
    ),
)
"""Of FAIL002."""
