"""FAIL013 tensor-mismatch."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code, LogMessage
from gpudoctor_checks.failure.tensor_messages import TENSOR_MESSAGES


class TensorMismatch(LogCheck):
    """Tensors of different type, device or shape met.

    What it finds:
        A job that died at an operation whose tensors differ in type, device or shape. Or they are still on the
        meta device.
    Why it hurts:
        The step cannot be computed.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A mismatch while a checkpoint is loaded belongs to checkpoint-misfit.
    Remedies:
        Convert or pad the tensor at the line that the traceback names.
    References:
        - https://github.com/huggingface/trl/issues/1152
        - https://github.com/huggingface/peft/issues/1515
    """

    code = Code("FAIL013")
    name = "tensor-mismatch"
    log_messages = (
        LogMessage(
            kind="fsdp",
            cue="must flatten tensors with uniform",
            pattern=r"Must flatten tensors with uniform (?P<what>dtype|`requires_grad`)",
            text="FSDP cannot join parameters that differ in {what}.",
            source="torch/distributed/fsdp/_flat_param.py",
        ),
        LogMessage(
            kind="attention-type",
            cue="fp16 and bf16 data type",
            pattern=r"only supports? fp16 and bf16 data type",
            text="FlashAttention got float32, and takes fp16 and bf16 only.",
            source="flash-attention csrc/flash_attn/flash_api.cpp",
        ),
        LogMessage(
            kind="dtype",
            cue=(
                "expected object of scalar type",
                "framework doesn't support float64",
                "only support fp16 and bf16 data type",
                "only supports fp16 and bf16 data type",
                "expected scalar type",
                "not implemented for '",
                "should be the same",
                "bias type",
                "tensors used as indices",
                "dtype",
            ),
            pattern=r"[Ee]xpected object of scalar type (?P<wanted>\w+) but got scalar type "
            r"(?P<came>\w+)|framework doesn't support float64|"
            r"expected scalar type (?P<one>\w+) but found (?P<two>\w+)|must have the same dtype|"
            r"source and destination dtypes match|\"(?P<operation>[\w.]+)\" not implemented for "
            r"'(?P<type>\w+)'|Input type .{0,60} and (?:weight|bias) type .{0,60} should be the same|"
            "expected .{0,20}to have the same dtype|tensors used as indices must be long|[Ff]ound dtype "
            r"\w+ but expected \w+|[Ee]xpected .{0,30}dtype \w+ for",
            text="Tensors have different or unsupported types[: {one} was expected, {two} came][: "
            "{operation} does not support {type}].",
        ),
        LogMessage(
            kind="device",
            cue=(
                "must be cuda and dense",
                "allocated on mps device",
                "device type tensor to numpy",
                "on the same device",
                "must be on devices[0]",
                "at least two devices",
                "object of device type",
                "found device",
                "backend type",
                "buffers on device",
                "input tensor",
                "is on ",
                "are on ",
            ),
            pattern="Tensors must be CUDA and dense|storage has not been allocated on MPS device|"
            r"can't convert \w+(?::\d+)? device type tensor to numpy|"
            r"tensors must be on devices\[0\]|"
            "to be on the same device|[Ee]xpected object of (?:device|backend) type|found at least "
            "two devices|module must have its parameters and buffers on device|Input tensor "
            ".{0,40}(?:but weights|is not on)|(?:is|are) on (?:device )?(?:cpu|cuda).{0,40}(?:but|"
            "while|expected).{0,40}(?:cpu|cuda)",
            text="Tensors are on different devices.",
            source="https://github.com/huggingface/trl/issues/1152",
        ),
        LogMessage(
            kind="meta-sharded",
            cue=("meta tensor", "device meta"),
            pattern=r"(?:out of meta tensor|not on the expected device meta)[\s\S]*\nin "
            r"[^\n]*(?:/fsdp/|fsdp_utils|_composable)",
            text="FSDP met a parameter or buffer on the meta device: this rank never got its weights.",
            source="torch/distributed/fsdp/_init_utils.py; accelerate/utils/fsdp_utils.py",
        ),
        LogMessage(
            kind="meta",
            cue=("meta tensor", "device meta", "meta device"),
            pattern="out of meta tensor|(?:is )?not on the expected device meta|on the meta device|meta tensors?",
            text="A parameter is still on the meta device: its weights were never loaded.",
            source="https://github.com/huggingface/transformers/issues/26510",
        ),
        LogMessage(
            kind="padding",
            cue="activate truncation",
            pattern=r"activate truncation and/or padding",
            text="The samples of a batch have different lengths, or hold something other than numbers.",
            source="transformers/tokenization_utils_base.py",
        ),
        LogMessage(
            kind="shape",
            cue=(
                "incompatible shapes: [",
                "shapes cannot be multiplied",
                "equal size",
                "must match except in dimension",
                "is invalid for input of size",
                "match target batch_size",
                "size mismatch, m1",
                "given groups=",
                "value per channel when training",
                "size is not compatible",
                "kernel size can't be greater",
                "expanded size of the tensor",
                "dimensional input",
                "broadcast",
                "not resizable",
                "shape mismatch",
                "same size",
                "size mismatch",
                "inconsistent tensor size",
                "must be a matrix",
                "incompatible shapes",
                "does not match",
                "same number of dimensions",
                "number of dims",
                "must match the ",
                "given normalized_shape=",
                "given transposed=",
                "1 value per channel",
                "different to the input size",
                "same as input size",
                "expected ",
                "input.size(-",
                "size of tensor a",
                "operands could not be",
                "doesn't match",
                "do not match",
            ),
            pattern=r"Incompatible shapes: \[[\d,]{0,60}\] vs\. \[|"
            "shapes cannot be multiplied|must match the (?:existing )?size|to be (?:of )?equal size|"
            "must match except in dimension|is invalid for input of size|to match target batch_size|"
            "size mismatch, (?:m1|got)|Given (?:groups|normalized_shape|transposed)=|more than 1 "
            "value per channel|view size is not compatible|[Kk]ernel size can't be greater|expanded "
            "size of the tensor|dimensional input|doesn't match the broadcast shape|could not "
            "broadcast|not resizable|shape mismatch|that is "
            "different to the input size|[Tt]arget size .{0,60}must be the same as input size|"
            "[Ee]xpected input.{0,80}(?:to have|channels|size)|inconsistent tensor size|"
            r"[Ii]ncompatible shapes|[Ee]xpected (?:hidden|\d?-?D).{0,60}(?:got|but)|"
            r"input\.size\(-1\) must be equal|same number of dimensions|(?:shape|size)s? "
            ".{0,80}(?:does not|doesn't|do not) match|The size of tensor a|operands could not be",
            text="Tensor shapes do not fit: {said}.",
            general=True,
        ),
        *TENSOR_MESSAGES,
    )
