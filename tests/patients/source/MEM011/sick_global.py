import torch
import torch.nn.utils.prune as prune


def shrink(model, amount=0.8):
    parameters = [(m, "weight") for m in model.modules() if isinstance(m, torch.nn.Conv2d)]
    prune.global_unstructured(parameters, pruning_method=prune.L1Unstructured, amount=amount)
    return model


torch.onnx.export(shrink(torch.nn.Conv2d(3, 8, 3)), torch.randn(1, 3, 8, 8), "small.onnx")
