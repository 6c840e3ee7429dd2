"""The shared indexes of a script give what a walk through its tree gives."""

import ast

from scripts import read_script
from some import some

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import loop_node
from gpudoctor.analysis.source.syntax import nodes, segment
from gpudoctor.model.signs.source import Script

TEXT = '''
import torch

def train(model, loader, 优化器):
    # 训练一个 epoch
    for step, (图像, 标签) in enumerate(loader):
        损失 = model(图像).sum() + 1; print("步", step, 损失.item())
        损失.backward()
        优化器.step()
        with torch.no_grad():
            text = """多行
            文本"""
    return [x for x in loader if x + 1 > 2]

class Net(torch.nn.Module):
    def forward(self, x): return x
'''


def _script() -> Script:
    return read_script(TEXT).scripts[0]


def test_nodes_come_in_the_order_of_a_walk() -> None:
    script = _script()
    shared = ast.expr_context | ast.operator | ast.cmpop
    assert list(nodes(script)) == [node for node in ast.walk(script.tree) if not isinstance(node, shared)]
    for kinds in ((ast.Call,), (ast.For, ast.With), (ast.stmt,), (ast.Name, ast.Attribute, ast.arg)):
        assert list(nodes(script, *kinds)) == [node for node in ast.walk(script.tree) if isinstance(node, kinds)]


def test_every_node_has_the_parent_that_lists_it() -> None:
    script = _script()
    for child, parent in some(script.parents.items()):
        assert any(child is item for item in ast.iter_child_nodes(parent))
    assert script.tree not in script.parents


def test_a_segment_is_the_text_of_its_node() -> None:
    script = _script()
    placed = [node for node in nodes(script) if hasattr(node, "lineno")]
    assert len(placed) > 60
    for node in placed:
        assert segment(script, node) == ast.get_source_segment(script.text, node)
    assert segment(script, script.tree) == ""


def test_calls_to_keeps_the_order_of_the_script() -> None:
    script = _script()
    names = (".step", ".print", "torch.no_grad", ".backward")
    expected = [c for c in script.calls if c.name in names or "." + c.method in names]
    assert list(script.calls_to(*names)) == expected
    assert len(expected) == 4


def test_a_loop_is_found_by_its_line() -> None:
    script = _script()
    found = loop_node(script, script.loops[0])
    assert isinstance(found, ast.For)
    assert found.lineno == script.loops[0].span.line


def test_an_answer_is_worked_out_once_for_each_script_and_argument() -> None:
    asked = []

    @once
    def question(script: Script, word: str) -> int:
        asked.append((script.path, word))
        return script.text.count(word)

    one, two = _script(), _script()
    assert [question(one, "step"), question(one, "step"), question(one, "x"), question(two, "step")] == [
        TEXT.count("step"), TEXT.count("step"), TEXT.count("x"), TEXT.count("step"),
    ]  # fmt: skip
    assert len(asked) == 3
