"""Binding what import statements import: the program's own modules, or names of libraries."""

import ast

from gpudoctor.vitals.source.importing import relative_name
from gpudoctor.vitals.source.program import SourceInterpreter
from gpudoctor.vitals.source.qualified_names import canonical
from gpudoctor.vitals.source.scope import ScopeState
from gpudoctor.vitals.source.values import NOTHING, AbstractValue, Module


def bring(program: SourceInterpreter, frame: ScopeState, node: ast.Import | ast.ImportFrom) -> None:
    """Bind what an import statement imports."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            _bring_module(program, frame, alias)
        return
    base = relative_name(frame.module, node)
    module = program.importer.load(base, frame.module, node.level) if base is not None else None
    if module is not None:
        _link(program, frame.module, module)
    for alias in node.names:
        _bring_member(program, frame, node, alias, base or node.module or "", module)


def _link(program: SourceInterpreter, by: Module, module: Module) -> None:
    program.run_module(module)
    if module is not by and module not in by.links:
        by.links.append(module)


def _bring_module(program: SourceInterpreter, frame: ScopeState, alias: ast.alias) -> None:
    module = program.importer.load(alias.name, frame.module)
    name = alias.asname or alias.name.partition(".")[0]
    frame.module.imports[name] = alias.name if alias.asname else name
    if module is None:
        frame.bind(name, AbstractValue(ref=canonical(alias.name) if alias.asname else name))
        return
    _link(program, frame.module, module)
    if alias.asname is None and "." in alias.name:
        root = program.importer.load(name, frame.module)
        if root is not None:
            _link(program, frame.module, root)
            frame.bind(name, AbstractValue(definition=root))
        else:
            frame.bind(name, AbstractValue(ref=name))
        return
    frame.bind(name, AbstractValue(definition=module))


def _bring_member(
    program: SourceInterpreter,
    frame: ScopeState,
    node: ast.ImportFrom,
    alias: ast.alias,
    base: str,
    module: Module | None,
) -> None:
    if alias.name == "*":
        if module is not None and module.names is not None:
            for name, thing in module.names.items():
                if not name.startswith("_"):
                    frame.bind(name, thing)
        else:
            _bring_all(frame, base)
        return
    name = alias.asname or alias.name
    dotted = f"{base}.{alias.name}" if base else alias.name
    frame.module.imports[name] = dotted
    if module is not None and module.names is not None and alias.name in module.names:
        thing = module.names[alias.name]
        if thing.known and thing.origin == "literal":
            thing = thing.replace(origin="constant")
        frame.bind(name, thing)
        return
    inner = program.importer.load(dotted, frame.module, node.level)
    if inner is not None:
        _link(program, frame.module, inner)
        frame.bind(name, AbstractValue(definition=inner))
        return
    frame.bind(name, NOTHING if module is not None else AbstractValue(ref=canonical(dotted)))


def _bring_all(frame: ScopeState, base: str) -> None:
    for name in _STAR.get(base, ()):
        frame.bind(name, AbstractValue(ref=canonical(f"{base}.{name}")))


_STAR = {
    "torch": ("nn", "optim", "cuda", "Tensor", "tensor", "no_grad", "save", "load", "device"),
    "torch.nn": ("Module", "Linear", "Conv2d", "CrossEntropyLoss", "MSELoss", "Sequential", "DataParallel"),
    "torch.optim": ("SGD", "Adam", "AdamW", "RMSprop", "lr_scheduler"),
    "torch.utils.data": ("DataLoader", "Dataset", "random_split", "TensorDataset", "Subset", "DistributedSampler"),
    "torch.profiler": ("profile", "record_function", "ProfilerActivity", "schedule"),
    "transformers": ("Trainer", "TrainingArguments", "AutoTokenizer", "AutoModelForCausalLM"),
}
