"""Advice on what a job's log names as the first cause of its death."""

from gpudoctor.model import advise, in_log

ADVICE = (
    advise(
        "ENV001-reload",
        "Reboot the node, or reload the driver's modules",
        "sudo reboot   # or: stop all GPU processes; sudo rmmod nvidia_uvm nvidia_drm "
        "nvidia_modeset nvidia; sudo modprobe nvidia",
        "cat /proc/driver/nvidia/version   # the kernel module; nvidia-smi shows the library",
        when=in_log("nvml-mismatch", "driver-init"),
    ),
    advise(
        "ENV001-fabric",
        "Start the fabric manager",
        "sudo systemctl enable --now nvidia-fabricmanager   # its version must equal the driver's",
        "nvidia-smi -q | grep -A3 Fabric   # State: Completed",
        when=in_log("fabric-manager"),
    ),
    advise(
        "ENV001-container",
        "Give the container the GPUs again",
        "docker run --gpus all ...   # Kubernetes: resources.limits nvidia.com/gpu",
        "restart the container; a reload of systemd takes the devices from running containers",
        when=in_log("container-lost"),
    ),
    advise(
        "ENV001-runtime",
        "Install the NVIDIA container toolkit on the node, and check its driver",
        "nvidia-smi   # on the node itself: it must list the GPUs",
        "sudo nvidia-ctk runtime configure --runtime=docker; sudo systemctl restart docker",
        when=in_log("container-runtime"),
    ),
    advise(
        "ENV001-visible",
        "Check that this process sees a GPU",
        'nvidia-smi; echo "$CUDA_VISIBLE_DEVICES"; python -c \'import torch; '
        "print(torch.cuda.device_count())'",
        "Slurm: ask for one (--gres=gpu:1); containers: --gpus all",
        when=in_log("no-device", "unknown-cuda", "warned", "smi-failed"),
    ),
    advise(
        "ENV002-install",
        "Install a torch build with CUDA",
        "pip install torch --index-url https://download.pytorch.org/whl/cu126   # the CUDA "
        "version that the driver supports",
        "python -c 'import torch; print(torch.__version__, torch.version.cuda)'",
        when=in_log("cpu-build", "cpu-version"),
    ),
    advise(
        "ENV003-driver",
        "Update the driver, or install a torch build for the older CUDA",
        "nvidia-smi   # CUDA Version: the newest that this driver supports",
        "pip install torch --index-url https://download.pytorch.org/whl/cu118",
        when=in_log("too-old", "insufficient", "ptx", "warned"),
    ),
    advise(
        "ENV003-image",
        "Update the driver of the node, or use an image for an older CUDA",
        "nvidia-smi   # CUDA Version: the newest that this driver supports",
        when=in_log("image-requirement"),
    ),
    advise(
        "ENV003-compatibility",
        "Remove the CUDA compatibility libraries from the library path",
        'echo "$LD_LIBRARY_PATH"; ldconfig -p | grep libcuda   # cuda-compat serves data-centre GPUs only',
        when=in_log("compatibility"),
    ),
    advise(
        "ENV004-build",
        "Install a build that has code for this GPU",
        "python -c 'import torch; print(torch.cuda.get_arch_list(), torch.cuda.get_device_capability())'",
        'for extensions: TORCH_CUDA_ARCH_LIST="8.0;9.0" pip install --no-binary :all: PACKAGE',
        when=in_log("no-kernel", "warned", "too-old-gpu"),
    ),
    advise(
        "ENV004-attention",
        "Use another attention implementation on this GPU",
        'attn_implementation="sdpa"   # instead of flash_attention_2',
        when=in_log("flash-attention"),
    ),
    advise(
        "ENV005-versions",
        "Install versions that fit each other",
        "pip check; pip list | grep -i -E 'torch|transformers|numpy|accelerate|peft|trl'",
        "pin the versions that the program names in its requirements",
        when=in_log(
            "cannot-import",
            "required",
            "conflict",
            "requires",
            "operator",
            "unknown-model",
            "removed-attribute",
        ),
    ),
    advise(
        "ENV005-numpy",
        "Install numpy<2, or newer builds of the other packages",
        "pip install 'numpy<2'   # or upgrade the package that was built for NumPy 1",
        when=in_log("numpy-abi", "numpy-removed"),
    ),
    advise(
        "ENV005-missing",
        "Install {module} in the job's environment",
        "pip install {module}   # the package may have another name than the module",
        "python -c 'import sys; print(sys.executable)'   # the job's interpreter, not the login node's",
        when=in_log("missing-package", "no-module"),
    ),
    advise(
        "ENV006-shm",
        "Give the container more shared memory",
        "docker run --shm-size=8g ...   # or --ipc=host",
        "Kubernetes: an emptyDir volume with medium: Memory, mounted at /dev/shm",
        "df -h /dev/shm   # while it runs",
        when=in_log(),
    ),
    advise(
        "ENV008-files",
        "Raise the limit of open files, or pass tensors by files",
        "ulimit -n 65536   # before the launch, in the job script",
        "torch.multiprocessing.set_sharing_strategy('file_system')",
        when=in_log("open-files", "ancdata"),
    ),
    advise(
        "ENV008-threads",
        "Use fewer threads and workers, or raise the limit of processes",
        "export OMP_NUM_THREADS=4; fewer num_workers; ulimit -u",
        when=in_log("threads"),
    ),
    advise(
        "ENV008-memlock",
        "Set the limit of locked memory to unlimited",
        "ulimit -l unlimited   # Slurm: PropagateResourceLimitsExcept=MEMLOCK; Docker: --ulimit memlock=-1",
        when=in_log("memlock"),
    ),
    advise(
        "ENV009-paging",
        "Raise the size of the paging file of Windows",
        "System > Advanced > Performance > Virtual memory; then restart Windows",
        "num_workers=0 or fewer workers: each one loads the libraries of torch again",
        when=in_log("paging-file"),
    ),
    advise(
        "ENV009-less",
        "Use less host memory, or ask for more",
        "Slurm: --mem; Kubernetes: resources.limits.memory",
        "fewer loader workers; memory-mapped data; low_cpu_mem_usage=True when a model is loaded",
        when=in_log(),
    ),
    advise(
        "ENV011-space",
        "Free space, or write elsewhere",
        "df -h; df -i; quota -s   # space, inodes, quota",
        "keep fewer checkpoints: save_total_limit=2; HF_HOME, TMPDIR and the output folder on a larger disk",
        when=in_log(),
    ),
    advise(
        "ENV013-numbers",
        "Use device numbers that this process sees",
        "echo \"$CUDA_VISIBLE_DEVICES\"; device = int(os.environ['LOCAL_RANK'])",
        "--nproc_per_node must not exceed the number of visible GPUs",
        when=in_log("ordinal", "requested"),
    ),
    advise(
        "ENV013-container",
        "Name GPUs that the node has",
        "nvidia-smi -L   # on the node: the numbers and UUIDs",
        "docker run --gpus all ...; NVIDIA_VISIBLE_DEVICES in the container's environment",
        when=in_log("unknown-device"),
    ),
    advise(
        "ENV015-bitsandbytes",
        "Install a bitsandbytes that has this CUDA version",
        "python -m bitsandbytes; pip install -U bitsandbytes",
        "LD_LIBRARY_PATH must contain the CUDA runtime that torch uses",
        when=in_log("bitsandbytes", "bitsandbytes-warned"),
    ),
    advise(
        "ENV015-openmp",
        "Install torch and NumPy from one source, so that they share one OpenMP runtime",
        "conda list | grep -i -E 'openmp|mkl|omp'   # pip and conda packages are mixed",
        "KMP_DUPLICATE_LIB_OK=TRUE only hides it: results may be wrong",
        when=in_log("openmp"),
    ),
    advise(
        "ENV015-rebuild",
        "Build the extension again against the installed torch",
        "pip uninstall -y flash-attn; pip install flash-attn --no-build-isolation --no-cache-dir "
        "  # or a wheel for this torch, CUDA and C++ ABI",
        when=in_log("undefined-symbol"),
    ),
    advise(
        "ENV015-system",
        "Use binaries for this system",
        "a conda or container environment with a newer GLIBC or libstdc++: conda install -c "
        "conda-forge libstdcxx-ng",
        when=in_log("glibc"),
    ),
    advise(
        "ENV015-path",
        "Let the loader find the library",
        "python -c 'import torch; print(torch.version.cuda, torch.backends.cudnn.version())'; "
        "ldconfig -p | grep NAME",
        "remove other CUDA versions from LD_LIBRARY_PATH; reinstall torch with its nvidia-* packages",
        when=in_log("missing-library", "library-warned", "cudnn-version"),
    ),
    advise(
        "ENV017-toolkit",
        "Install the CUDA toolkit of torch's version, and name it",
        "export CUDA_HOME=/usr/local/cuda-12.6; nvcc --version; python -c 'import torch; "
        "print(torch.version.cuda)'",
        when=in_log("cuda-home", "cuda-version"),
    ),
    advise(
        "ENV017-compiler",
        "Install a C++ compiler that this toolkit supports",
        "gcc --version; export CC=gcc-12 CXX=g++-12; pip install ninja",
        when=in_log("host-compiler", "op-build"),
    ),
    advise(
        "ENV017-first-error",
        "Read the first error of the build, above",
        "TORCH_EXTENSIONS_DIR=/tmp/ext MAX_JOBS=4 python train.py 2>&1 | grep -m1 -B5 error",
        when=in_log("op-build"),
    ),
)
