"""FAIL015 hub-unreachable."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.analysis.job_log.scheduler_words import BEGAN, cues, says
from gpudoctor.model import Bearing, Code, Confidence, LogMessage

_PULLED = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
           "RegistryUnavailable", "SignatureValidationFailed", "InspectFailed")  # fmt: skip


class HubUnreachable(LogCheck):
    """A hub or a tracker refused the job or was not reachable.

    What it finds:
        A job that died because a model, a data set or an experiment tracker is not accessible. It needs a
        login, a right, another name, or a network that the node does not have.
    Why it hurts:
        The job waits in the queue and ends in its first minute.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A request that is repeated with success is not a death.
    Remedies:
        Log in, accept the terms, or download before the job.
    References:
        - https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
    """

    code = Code("FAIL015")
    name = "hub-unreachable"
    log_messages = (
        LogMessage(
            kind="401",
            cue=(
                "unable to locate credentials",
                "default credentials were not found",
                "401 client error",
                "invalid user token",
                "invalid username or password",
                "unauthorized",
                "api_key not configured",
                "not logged in",
                "huggingface-cli login",
                "hf auth login",
                "http error 401",
                "please login",
                "please log in",
                "wandb login",
            ),
            pattern="Unable to locate credentials|[Yy]our default credentials were not found|"
            "401 (?:Client Error|Unauthorized)|HTTP Error 401|"
            "Invalid user token|Invalid username or password|"
            r"api_key not configured|\bUnauthorized\b|[Nn]ot logged in|[Pp]lease (?:log ?in|run "
            "`?(?:huggingface-cli|hf auth|wandb) login)",
            text="A service refused the login: the token is missing or wrong.",
        ),
        LogMessage(
            kind="403",
            cue=(
                "an error occurred (",
                "api_core.exceptions.forbidden",
                "403 client error",
                "gated repo",
                "access to model",
                "is restricted",
                "403 forbidden",
                "awaiting a review",
                "permission denied: ",
                "http error 403",
                "gatedrepo",
                "access to dataset",
            ),
            pattern=r"An error occurred \((?:403|AccessDenied|Forbidden|InvalidAccessKeyId|"
            r"SignatureDoesNotMatch|ExpiredToken)\)|api_core\.exceptions\.Forbidden|"
            "403 (?:Client Error|Forbidden)|HTTP Error 403|"
            "[Gg]ated ?[Rr]epo|Access to (?:model|dataset) "
            ".{0,100}(?:is restricted|requires)|awaiting a review",
            text="A service refused access: the terms of the model are not accepted, or the token lacks the right.",
        ),
        LogMessage(
            kind="404",
            cue=(
                "an error occurred (",
                "the specified blob does not exist",
                "the specified container does not exist",
                "cannot be accessed",
                "404 client error",
                "repositorynotfounderror",
                "valid model identifier",
                "entrynotfounderror",
                "revisionnotfounderror",
                "repository not found",
                "repo id must",
                "http error 404",
                "404 not found",
                "artifact '",
            ),
            pattern=r"(?i:artifact) '[^'\n]{1,200}' not found in '|"
            r"An error occurred \((?:404|NoSuchKey|NoSuchBucket)\)|The specified (?:blob|"
            r"container) does not exist|Dataset '[^'\n]{1,200}' doesn't exist on the Hub or "
            "cannot be accessed|"
            "404 (?:Client Error|Not Found)|HTTP Error 404|"
            "RepositoryNotFoundError|not a (?:local folder and is not "
            "a )?valid model identifier|EntryNotFoundError|RevisionNotFoundError|Repository Not "
            "Found|Repo id must",
            text="The model, dataset or file was not found: a wrong name or path, or a private repository "
            "without a token.",
        ),
        LogMessage(
            kind="rate-limit",
            cue=("an error occurred (", "429 client error", "too many requests", "rate limit"),
            pattern=r"An error occurred \((?:SlowDown|Throttling|TooManyRequests\w*)\)|"
            "429 (?:Client Error|Too Many Requests)|[Tt]oo [Mm]any [Rr]equests|[Rr]ate limit",
            text="A service refused the request because there were too many.",
        ),
        LogMessage(
            kind="offline",
            cue=(
                "couldn't connect to",
                "offlinemodeisenabled",
                "localentrynotfounderror",
                "max retries exceeded",
                "couldn't reach",
                "connectionerror",
                "cannot find the requested files in the",
                "newconnectionerror",
                "certificate_verify_failed",
                "proxyerror",
                "connecttimeout",
                "readtimeout",
                "failed to resolve",
                "server error",
                "sslerror",
                "network is unreachable",
                "remotedisconnected",
                "incompleteread",
                "chunkedencodingerror",
                "connectiontimeout",
            ),
            pattern=r"^(?![\s\S]*(?:vllm_client|host='(?:localhost|127\.|0\.0\.0\.0|10\.|192\.168\.)))[\s\S]*?(?:"
            "[Cc]ouldn't connect to|OfflineModeIsEnabled|LocalEntryNotFoundError|Max retries "
            "exceeded|[Cc]ouldn't reach|cannot find the requested files in the|NewConnectionError|"
            r"CERTIFICATE_VERIFY_FAILED|ProxyError|Connect(?:ion)?Timeout|ReadTimeout|5\d\d Server "
            "Error|SSLError|Network is unreachable|Failed to resolve|RemoteDisconnected|"
            r"IncompleteRead|ChunkedEncodingError|requests\.exceptions\.ConnectionError)",
            text="A download or a service could not be reached from this node.",
            general=True,
        ),
        LogMessage(
            kind="offline",
            cue=("could not resolve host", "unable to resolve host", "failed to connect to"),
            pattern=r"(?:(?:^|[\s\d])curl: \(\d\) |^fatal: unable to access .{1,300}: )"
            r"(?:Could not resolve host|Failed to connect to)|^wget: unable to resolve host",
            text="A download or a service could not be reached from this node.",
            everywhere=True,
            last=True,
            source="curl, wget, git: nothing of the script ran after it",
        ),
        LogMessage(
            kind="offline",
            cue=("could not connect to the endpoint url", "<urlopen error [errno"),
            pattern=r"Could not connect to the endpoint URL|<urlopen error \[Errno -?\d+\]",
            text="A download or a service could not be reached from this node.",
            general=True,
            source="botocore, urllib",
        ),
        LogMessage(
            kind="image-pull",
            cue=cues(*_PULLED),
            pattern=says(*_PULLED),
            text="Kubernetes could not pull the image of the pod: its name is wrong, or the registry refuses it.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            unstarted=True,
            outside=True,
            undone=BEGAN,
            source="Kubernetes pkg/kubelet/images/types.go: the state of a container that waits",
        ),
        LogMessage(
            kind="image-pull",
            cue=(
                "failed to pull image",
                "back-off pulling image",
                "failing to pull image",
                "image can't be pulled",
                "couldn't parse image reference",
                "is not present with pull policy of never",
                "cannotpullcontainererror",
                "cannotpullimagemanifesterror",
                "failedpullingimage",
            ),
            pattern=r"(?:\bWarning\s.{0,200}|^)Failed to pull image \"?(?P<image>[^\s\"]{1,200})|"
            r"\b(?:Normal|Warning)\s.{0,200}Back-off pulling image \"?(?P<again>[^\s\"]{1,200})|"
            r"couldn't parse image reference \\?\"(?P<odd>[^\"\\]{1,200})|\bCannotPull(?:Container|"
            r"ImageManifest)Error\b|"
            r"Container image \\?\"(?P<local>[^\"\\]{1,200})\\?\" is not present with pull policy of Never|"
            r"^FailedPullingImage\b|"
            r"is waiting to start: (?:trying and failing to pull image|image can't be pulled)",
            text="The image[ {image}][ {again}][ {odd}][ {local}] of the pod could not be pulled. Its name is "
            "wrong, or the registry refuses it.",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            unstarted=True,
            outside=True,
            undone=r"Successfully pulled image|already present on machine|"
            r"\bNormal\s.{0,60}\b(?:Pulled|Created|Started)\s|[Ss]tarted container\b",
            source="Kubernetes pkg/kubelet/images/image_manager.go: events, which come again until it is there",
        ),
        LogMessage(
            kind="image-refused",
            cue=(
                "manifest unknown",
                "pull access denied",
                "error response from daemon: manifest ",
                "error reading manifest",
                "while making image from oci registry",
                "unable to handle docker://",
                "failed to get checksum for docker://",
                "no matching manifest for ",
                "requested access to the resource is denied",
                "toomanyrequests: ",
                ": unauthorized",
                "awaiting headers",
                "] url ",
                "failed to import docker image",
                "initializing source docker://",
                "invalid reference format",
            ),
            pattern=r"\bError response from daemon: (?:manifest (?:for )?"
            r"(?P<image>\S{1,200}) not found|pull access denied for (?P<denied>[^\s,]{1,200})|"
            r".{0,200}manifest unknown)|"
            r"\bFATAL: +(?:.{0,200}(?:manifest unknown|[Ee]rror reading manifest)|While making image from oci "
            r"registry|Unable to handle docker://|.{0,80}failed to get checksum for docker://)|"
            r"no matching manifest for (?P<platform>\S{1,60}) in the manifest list|"
            r"[Ee]rror(?: response from daemon)?: .{0,300}(?:requested access to the resource is denied|"
            r"toomanyrequests: |"
            r"(?:/v2/|/manifests/).{0,300}(?:: unauthorized|awaiting headers))|"
            r"\[ERROR\] URL (?P<url>\S{1,200}/(?:v2|proxy_auth|"
            r"token)\S{0,300}) returned error code: \d{3}|"
            r"\bError: initializing source docker://|\bdocker: .{0,60}invalid reference format",
            text="The image[ {image}][ {denied}][ for {platform}][ ({url})] of the container could not be "
            "pulled. "
            "Its name is wrong, or the registry refuses it.",
            everywhere=True,
            unstarted=True,
            outside=True,
            closing=True,
            source="docker, podman, Singularity, Apptainer, enroot, pyxis",
        ),
        LogMessage(
            kind="tracker-warned",
            cue=("api key verification failed", "disabled due to login"),
            pattern=r"wandb: .{0,40}(?:API key verification failed|W&B disabled due to login timeout)",
            text="W&B refused the API key, so the program has no run of it.",
            bearing=Bearing.HINT,
            everywhere=True,
            explains=r"'NoneType' object has no attribute|wandb",
            source="wandb: sdk/wandb_login.py, sdk/wandb_init.py",
        ),
        LogMessage(
            kind="tracker",
            cue=("wandb.errors", "commerror", "mlflow", "comet", "neptune", "wandb.sdk", "wandb: error"),
            pattern=r"wandb: ERROR Error while calling W&B API: (?:permission denied|\w{0,40} ?not found)|"
            r"wandb\.(?:errors|sdk)\S*(?:UsageError\b(?!.*wandb\.init\()|CommError|AuthenticationError|"
            r"\bError: .{0,80}(?:[Cc]ommunicat|[Uu]pload|[Tt]imed? ?out|[Cc]onnect|[Pp]ermission|api.?key))|"
            r"MlflowException|mlflow\.exceptions",
            text="The experiment tracker ended the run: {said}.",
            general=True,
        ),
    )
