"""FAIL017 compile-failed."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code, LogMessage


class CompileFailed(LogCheck):
    """A compiler of the framework failed.

    What it finds:
        A job that died in torch.compile, Triton or ptxas:
        - no compiler
        - a kernel that needs too much of the GPU
        - a graph that the backend does not support
    Why it hurts:
        The first step fails, although the model trains without the compiler.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Graph breaks and warnings of the compiler are not deaths.
    Remedies:
        Install the compiler, or train without it.
    References:
        - https://pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    """

    code = Code("FAIL017")
    name = "compile-failed"
    log_messages = (
        LogMessage(
            kind="resources",
            cue=("outofresources", "out of resource:"),
            pattern=r"OutOfResources|out of resource: (?P<resource>[\w ]+)",
            text="A Triton kernel needs more of the GPU[ ({resource})] than this GPU has.",
        ),
        LogMessage(
            kind="compiler-missing",
            cue=(
                "failed to find c compiler",
                "python.h",
                "cannot find a working triton",
                "tritonmissing",
                "compiler: cl is not found",
                "no c++ compiler",
                "invalidcxxcompiler",
                "no working c++ compiler",
            ),
            pattern=r"[Ff]ailed to find C compiler|Python\.h: No such file|[Cc]annot find a working triton|"
            r"TritonMissing|[Cc]ompiler: cl is not found|InvalidCxxCompiler|No working C\+\+ compiler",
            text="The compiler that torch.compile or Triton needs is missing.",
        ),
        LogMessage(
            kind="ptxas",
            cue=("ptxas", "ptx codegen"),
            pattern="ptxas(?: fatal| error|.{0,40}(?:failed|died))|PTXASError|[Ii]nternal Triton PTX codegen error",
            text="ptxas could not compile a kernel for this GPU.",
        ),
        LogMessage(
            kind="triton",
            cue=(
                "triton.compiler",
                "compilationerror",
                "triton.runtime",
                "notritonconfigserror",
                "passmanager::run failed",
                "triton error [cuda]: device kernel image",
            ),
            pattern=r"PassManager::run failed|Triton Error \[CUDA\]: device kernel image is invalid|"
            r"triton\.compiler\.\w*(?:Error|errors)|^\S*CompilationError|triton\.runtime\.\w+|"
            "NoTritonConfigsError",
            text="Triton could not compile a kernel.",
            general=True,
        ),
        LogMessage(
            kind="inductor",
            cue=(
                "inductorerror",
                "loweringexception",
                "torch._inductor",
                "cppcompileerror",
                "backendcompilerfailed",
                "backend=",
            ),
            pattern=r"InductorError|LoweringException|torch\._inductor\.exc|CppCompileError|backend='?\w+'? "
            "raised|BackendCompilerFailed",
            text="The compiler's backend failed on the model's graph.",
            general=True,
        ),
        LogMessage(
            kind="dynamo",
            cue=(
                "guardondatadependentsymnode",
                "not yet supported for torch.compile",
                "dynamo is not supported on",
                "torch._dynamo.exc",
                "dynamo failed",
                "failonrecompilelimithit",
                "torchruntimeerror",
                "hit recompile_limit",
            ),
            pattern=r"GuardOnDataDependentSymNode|not yet supported for torch\.compile|Dynamo is not "
            "supported on Python|"
            r"torch\._dynamo\.exc\.\w+|[Dd]ynamo failed to run FX node|FailOnRecompileLimitHit",
            text="torch.compile could not trace the model.",
            everywhere=True,
            general=True,
        ),
    )
