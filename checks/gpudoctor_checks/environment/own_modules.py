"""Modules of the program itself, by what Python says of an import that failed."""

OWN_MODULE = (
    r"(?:src|utils?|lib|libs|models?|data|config|configs|cfg|modules?|common|core|tools|scripts|train|trainer|training|"
    r"evaluate|evaluation|losses|layers|networks?|nets|dataset|dataloaders?|data_loader|helpers?|engine|options|misc)"
    r"(?:[.'\s]|$)"
)
"""Names that programs give to modules of their own, which no package of the training stack has."""
OWN_FILE = r"'? \(/(?![^)\n]*(?:(?:site|dist)-packages|/lib(?:64)?/python\d))[^)\n]{1,400}\.py\)"
"""The file of a module that is of no installed package, behind the module's name."""
