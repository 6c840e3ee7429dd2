"""Secrets in arguments and texts: forms of credentials times places where they are written, and harmless words.

The forms are those that detect-secrets, gitleaks and trufflehog look for. Values are drawn anew for each seed.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path

from attack.case import Attempt
from attack.words.harmless import ARGUMENTS, TEXTS
from attack.words.held_out import held_out

from gpudoctor.model.redaction import mask_arguments, mask_text

SECRETS, HARMLESS = "secrets in arguments and texts", "false masks of harmless arguments"
HELD_OUT = "secrets in forms written after the masker"

ALNUM = string.ascii_letters + string.digits
HEX = string.digits + "abcdef"
WEB = ALNUM + "_-"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits

Random = random.Random
Made = Callable[[Random], str]


def of(alphabet: str, length: int, prefix: str = "", suffix: str = "") -> Made:
    """A maker of values: prefix, random characters, suffix."""
    return lambda rng: prefix + "".join(rng.choices(alphabet, k=length)) + suffix


def jwt(rng: Random) -> str:
    """A JSON web token."""
    body = base64.urlsafe_b64encode(b'{"sub":"%d","n":"%d"}' % (rng.getrandbits(40), rng.getrandbits(40))).decode()
    return "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." + body.rstrip("=") + "." + of(WEB, 43)(rng)


def neptune(rng: Random) -> str:
    """A token of neptune: JSON in base64."""
    text = '{"api_address":"https://app.neptune.ai","api_key":"' + f'{rng.getrandbits(128):x}"}}'
    return base64.b64encode(text.encode()).decode()


def basic(rng: Random) -> str:
    """A user and a password, as HTTP's basic authentication has them."""
    return base64.b64encode(b"user:" + of(ALNUM, 12)(rng).encode()).decode()


ISSUED: dict[str, Made] = {
    "GitHub classic": of(ALNUM, 36, "ghp_"),
    "GitHub OAuth": of(ALNUM, 36, "gho_"),
    "GitHub server": of(ALNUM, 36, "ghs_"),
    "GitHub fine-grained": lambda r: of(ALNUM, 22, "github_pat_")(r) + "_" + of(ALNUM, 59)(r),
    "GitLab": of(WEB, 20, "glpat-"),
    "GitLab runner": of(WEB, 20, "glrt-"),
    "GitLab trigger": of(HEX, 40, "glptt-"),
    "Hugging Face": of(ALNUM, 34, "hf_"),
    "Hugging Face organisation": of(ALNUM, 34, "api_org_"),
    "OpenAI": of(ALNUM, 48, "sk-"),
    "OpenAI project": of(WEB, 100, "sk-proj-"),
    "OpenAI service": of(WEB, 60, "sk-svcacct-"),
    "Anthropic": of(WEB, 93, "sk-ant-api03-", "AA"),
    "OpenRouter": of(HEX, 64, "sk-or-v1-"),
    "DeepSeek": of(HEX, 32, "sk-"),
    "Slack bot": lambda r: f"xoxb-{r.randrange(10**11, 10**12)}-{r.randrange(10**11, 10**12)}-" + of(ALNUM, 24)(r),
    "Slack app": lambda r: f"xapp-1-A{of(UPPER, 10)(r)}-{r.randrange(10**12)}-" + of(HEX, 64)(r),
    "AWS key id": of(UPPER, 16, "AKIA"),
    "AWS temporary id": of(UPPER, 16, "ASIA"),
    "AWS secret key": of(ALNUM + "+", 40),
    "Google API": of(WEB, 35, "AIza"),
    "Google OAuth": of(WEB, 80, "ya29."),
    "Google client": of(WEB, 28, "GOCSPX-"),
    "npm": of(ALNUM, 36, "npm_"),
    "PyPI": of(WEB, 150, "pypi-AgEIcHlwaS5vcmc"),
    "Docker": of(WEB, 27, "dckr_pat_"),
    "Databricks": of(HEX, 32, "dapi"),
    "Stripe": of(ALNUM, 24, "sk_live_"),
    "Stripe restricted": of(ALNUM, 24, "rk_test_"),
    "SendGrid": lambda r: "SG." + of(WEB, 22)(r) + "." + of(WEB, 43)(r),
    "Twilio": of(HEX, 32, "SK"),
    "Telegram": lambda r: f"{r.randrange(10**9, 10**10)}:AA" + of(WEB, 33)(r),
    "JWT": jwt,
    "neptune": neptune,
    "NVIDIA NGC": of(WEB, 64, "nvapi-"),
    "Replicate": of(ALNUM, 37, "r8_"),
    "Groq": of(ALNUM, 52, "gsk_"),
    "xAI": of(ALNUM, 80, "xai-"),
    "Perplexity": of(ALNUM, 48, "pplx-"),
    "DigitalOcean": of(HEX, 64, "dop_v1_"),
    "Heroku": of(WEB, 58, "HRKU-AA"),
    "Vault": of(WEB, 90, "hvs."),
    "age": of(UPPER, 58, "AGE-SECRET-KEY-1"),
    "Discord bot": lambda r: "M" + of(ALNUM, 23)(r) + "." + of(WEB, 6)(r) + "." + of(ALNUM, 38)(r),
    "Azure client": lambda r: of(ALNUM, 3)(r) + "8Q~" + of(ALNUM + "_.~-", 33)(r) + "a",
    "Shopify": of(HEX, 32, "shpat_"),
    "Mailgun": of(HEX, 32, "key-"),
    "Mailchimp": of(HEX, 32, "", "-us12"),
    "New Relic": of(UPPER, 27, "NRAK-"),
    "Grafana": lambda r: "glsa_" + of(ALNUM, 32)(r) + "_" + of(HEX, 8)(r),
    "Linear": of(ALNUM, 40, "lin_api_"),
    "Notion": of(ALNUM, 46, "ntn_"),
    "Airtable": lambda r: "pat" + of(ALNUM, 14)(r) + "." + of(HEX, 64)(r),
    "Atlassian": of(WEB, 180, "ATATT3x"),
    "Doppler": of(ALNUM, 43, "dp.pt."),
    "Postman": lambda r: "PMAK-" + of(HEX, 24)(r) + "-" + of(HEX, 34)(r),
    "Pulumi": of(HEX, 40, "pul-"),
    "PlanetScale": of(WEB, 43, "pscale_tkn_"),
    "Sentry": of(WEB, 80, "sntrys_"),
    "Terraform": lambda r: of(ALNUM, 14)(r) + ".atlasv1." + of(ALNUM, 67)(r),
    "Supabase": of(HEX, 40, "sbp_"),
    "LangSmith": lambda r: "lsv2_pt_" + of(HEX, 32)(r) + "_" + of(HEX, 10)(r),
    "Pinecone": lambda r: "pcsk_" + of(ALNUM, 6)(r) + "_" + of(ALNUM, 60)(r),
    "RubyGems": of(HEX, 48, "rubygems_"),
    "Tailscale": lambda r: "tskey-auth-" + of(ALNUM, 12)(r) + "-" + of(ALNUM, 32)(r),
    "Square": of(WEB, 22, "sq0atp-"),
    "wandb, new": lambda r: "wandb_v1_" + of(ALNUM, 27)(r) + "_" + of(ALNUM, 44)(r),
    "Figma": of(WEB, 40, "figd_"),
}
"""Credentials that an issuer gave a form of their own, by issuer."""

SHAPES: dict[str, Made] = {
    "hexadecimal": of(HEX, 40),
    "letters and digits": of(ALNUM, 25),
    "base64": of(ALNUM + "+/", 43, "", "="),
    "a word": lambda r: (
        r.choice(["hunter", "falcon", "zebra", "quartz", "maple"]).capitalize() + str(r.randrange(10, 99)) + "xq"
    ),
    "marks": lambda r: of(ALNUM, 6)(r) + "!" + of(ALNUM, 4)(r) + "#" + of(ALNUM, 3)(r),
    "UUID": lambda r: "-".join(of(HEX, n)(r) for n in (8, 4, 4, 4, 12)),
}
"""What the value of a named secret looks like."""

NAMES = [
    "WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "COMET_API_KEY",
    "NEPTUNE_API_TOKEN", "MLFLOW_TRACKING_PASSWORD", "CLEARML_API_SECRET_KEY", "CLEARML_API_ACCESS_KEY",
    "COHERE_API_KEY", "MISTRAL_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_KEY",
    "AZURE_CLIENT_SECRET", "NGC_API_KEY", "KAGGLE_KEY", "MY_SECRET_V2", "DB_PASSWORD", "db_passwd", "api_key",
    "apiKey", "accessToken", "client_secret", "secret_key", "password", "passwd", "auth_token", "hub_token",
    "hf-token", "wandb-key", "account_key", "smtp_pass", "pgpassword", "privateKey", "passphrase", "x-api-key",
    "registry_token", "signing_key", "GITLAB_TOKEN", "SENTRY_AUTH_TOKEN", "REDIS_PASSWORD", "refresh_token",
]  # fmt: skip
"""Names of secrets, as configs, environments and options have them."""

NAMED = {
    "option, two words": lambda n, v: ["train.py", f"--{n}", v, "--lr", "0.1"],
    "option, one word": lambda n, v: ["train.py", f"--{n}={v}", "--lr", "0.1"],
    "Hydra override": lambda n, v: ["train.py", f"logger.{n}={v}"],
    "shell -c": lambda n, v: ["bash", "-c", f"export {n.replace('-', '_')}='{v}'; python train.py"],
    "environment": lambda n, v: f"{n.upper().replace('-', '_')}={v} python train.py",
    "quoted with spaces": lambda n, v: f'{n}="{v} {v}"',
    "JSON": lambda n, v: f'{{"lr": 0.1, "{n}": "{v}", "epochs": 3}}',
    "escaped JSON": lambda n, v: f'payload="{{\\"{n}\\": \\"{v}\\"}}"',
    "YAML": lambda n, v: f"lr: 0.1\n{n}: {v}\nepochs: 3\n",
    "YAML, quoted": lambda n, v: f"logger:\n  {n}: '{v}'\n",
    "TOML": lambda n, v: f'[logger]\n{n} = "{v}"\n',
    "repr of a mapping": lambda n, v: f"config = {{'{n}': '{v}', 'lr': 0.1}}",
    "repr of arguments": lambda n, v: f"Namespace(lr=0.1, {n.replace('-', '_')}='{v}', epochs=3)",
    "query of a URL": lambda n, v: f"GET https://api.example.com/v1/runs?{n}={v}&page=2 failed",
    "exception": lambda n, v: f"ValueError: cannot log in with {n}={v}: refused",
    "source": lambda n, v: f'client = Client(url, {n.replace("-", "_")}="{v}", timeout=3)',
    "os.environ": lambda n, v: f"os.environ['{n.upper().replace('-', '_')}'] = '{v}'",
    "Kubernetes": lambda n, v: f"env:\n- name: {n.upper().replace('-', '_')}\n  value: {v}\n",
}
"""Places for a named secret: a list is a command line."""

ANYWHERE = {
    "word of a command line": lambda v: ["train.py", "--data", v],
    "behind an unknown name": lambda v: ["train.py", f"--run_id={v}"],
    "path": lambda v: f"/home/alice/runs/{v}/model.pt",
    "file name": lambda v: f"No such file: 'backup_{v}.json'",
    "log line": lambda v: f"2024-05-01 12:00:01 INFO client: using {v} for the upload",
    "exception": lambda v: f"HTTPError: 401 Client Error for {v}.",
    "JSON": lambda v: f'{{"id": "{v}"}}',
    "source": lambda v: f"push('{v}', branch)",
    "query of a URL": lambda v: f"https://example.com/x?id={v}&page=2",
    "user of a URL": lambda v: f"https://{v}@example.com/x.git",
    "header": lambda v: f"X-Something: {v}",
    "bearer": lambda v: f"-H 'Authorization: Bearer {v}'",
    "escaped line feed": lambda v: f"log: \\n{v}\\n",
}
"""Places for a credential that shows by its form."""


def _password(rng: Random) -> str:
    return of(ALNUM, 9)(rng) + rng.choice(["", "!", "#x1", "$Ab"])


OTHERS: dict[str, tuple[Made, Callable[[str], str | list[str]]]] = {
    "header, bearer": (of(ALNUM, 30), lambda v: f"Authorization: Bearer {v}"),
    "header, basic": (basic, lambda v: f"authorization: Basic {v}"),
    "header, token": (of(HEX, 40), lambda v: f"Authorization: token {v}"),
    "header, bare": (of(ALNUM, 30), lambda v: f'{{"Authorization": "{v}"}}'),
    "header, repr": (of(ALNUM, 30), lambda v: f"headers={{'Authorization': 'Bearer {v}', 'Accept': '*/*'}}"),
    "header, key": (of(ALNUM, 30), lambda v: f"X-Api-Key: {v}"),
    "header, argument": (of(ALNUM, 30), lambda v: ["curl", "-H", f"Authorization: Bearer {v}", "https://x.io"]),
    "header, GitLab": (of(ALNUM, 20), lambda v: ["curl", "--header", f"PRIVATE-TOKEN: {v}", "https://x.io"]),
    "header, signature": (
        of(HEX, 64), lambda v: f"Authorization: AWS4-HMAC-SHA256 Credential=A/x, SignedHeaders=h, Signature={v}"
    ),
    "cookie": (of(ALNUM, 30), lambda v: f"Cookie: theme=dark; session={v}; a=b"),
    "set-cookie": (of(ALNUM, 30), lambda v: f"Set-Cookie: sid={v}; Path=/"),
    "redis": (_password, lambda v: f"redis://:{v}@cache:6379/0"),
    "postgresql": (_password, lambda v: f"--storage=postgresql://optuna:{v}@db.local/studies"),
    "mongodb": (_password, lambda v: f"mongodb+srv://u:{v}@cluster0.x.mongodb.net/db"),
    "amqp": (_password, lambda v: f"BROKER=amqp://guest:{v}@mq:5672//"),
    "https": (_password, lambda v: f"fatal: unable to access 'https://bob:{v}@git.local/x.git/'"),
    "proxy": (_password, lambda v: f"https_proxy=http://bob:{v}@proxy:3128"),
    "slash in a password": (lambda r: of(ALNUM, 5)(r) + "/" + of(ALNUM, 5)(r), lambda v: f"postgresql://u:{v}@h/db"),
    "no scheme": (lambda r: of(ALNUM, 10)(r) + "7z", lambda v: f"proxy bob:{v}@proxy.local:3128 refused"),
    "Sentry": (of(HEX, 32), lambda v: f"dsn https://{v}@o12.ingest.sentry.io/34"),
    "libpq": (_password, lambda v: f"host=db user=u password={v} dbname=x"),
    "ODBC": (_password, lambda v: f"Driver=x;Server=db;UID=u;PWD={v};Encrypt=yes"),
    "ADO": (_password, lambda v: f"Server=db;User Id=u;Password={v};"),
    "Azure account": (
        of(ALNUM + "+/", 86, "", "=="),
        lambda v: f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={v};EndpointSuffix=core.x",
    ),
    "Azure SAS": (
        of(ALNUM, 43, "", "%3D"), lambda v: f"https://a.blob.core.windows.net/c/x.bin?sv=2022-11-02&sr=b&sig={v}&se=2025"
    ),
    "Azure bus": (
        of(ALNUM + "+/", 43, "", "="),
        lambda v: f"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={v}",
    ),
    "Azure signature": (of(ALNUM, 43), lambda v: f"SharedAccessSignature sr=x&sig={v}&se=17&skn=root"),
    "S3 presigned": (
        of(HEX, 64), lambda v: f"https://b.s3.amazonaws.com/k?X-Amz-Date=20240101T000000Z&X-Amz-Signature={v}"
    ),
    "GCS presigned": (
        of(HEX, 256), lambda v: f"https://storage.googleapis.com/b/k?X-Goog-Expires=60&X-Goog-Signature={v}"
    ),
    "S3, old": (of(ALNUM + "+/", 27, "", "="), lambda v: f"https://b.s3.amazonaws.com/k?Expires=17&Signature={v}"),
    "Slack hook": (of(ALNUM, 24), lambda v: f"https://hooks.slack.com/services/T0AB12CD/B0AB12CD/{v}"),
    "Discord hook": (of(WEB, 68), lambda v: f"https://discord.com/api/webhooks/123456789012345678/{v}"),
    "Teams hook": (of(HEX, 32), lambda v: f"https://x.webhook.office.com/webhookb2/a@b/IncomingWebhook/{v}/c"),
    "Telegram URL": (of(WEB, 33), lambda v: f"https://api.telegram.org/bot123456789:AA{v}/sendMessage"),
    "WeCom hook": (SHAPES["UUID"], lambda v: f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={v}"),
    "curl -u": (_password, lambda v: ["curl", "-u", f"bob:{v}", "https://x.io"]),
    "curl in a shell": (_password, lambda v: f"+ curl -s -u bob:{v} https://x.io"),
    "mysql -p": (_password, lambda v: ["mysql", "-u", "bob", f"-p{v}", "db"]),
    "mysql in a shell": (_password, lambda v: ["bash", "-c", f"mysql -u bob -p{v} db < x.sql"]),
    "sshpass": (_password, lambda v: ["sshpass", "-p", v, "ssh", "host"]),
    "sshpass, joined": (_password, lambda v: f"sshpass -p{v} ssh host"),
    "docker login": (_password, lambda v: ["docker", "login", "-u", "bob", "-p", v]),
    "redis-cli": (_password, lambda v: ["redis-cli", "-h", "x", "-a", v]),
    "wandb login": (of(HEX, 40), lambda v: ["wandb", "login", v]),
    "wandb.login": (of(HEX, 40), lambda v: f"wandb.login(key='{v}')"),
    "wandb.login, bare": (of(HEX, 40), lambda v: f'wandb.login("{v}")'),
    "login": (of(ALNUM, 34), lambda v: f'huggingface_hub.login("{v}")'),
    "aws configure": (of(ALNUM + "/+", 40), lambda v: ["aws", "configure", "set", "aws_secret_access_key", v]),
    "setenv": (of(ALNUM, 20), lambda v: f"setenv WANDB_API_KEY {v}"),
    "export": (of(ALNUM, 20), lambda v: f"export HF_TOKEN={v}"),
    "PowerShell": (of(ALNUM, 20), lambda v: f'$env:HF_TOKEN="{v}"'),
    "docker -e": (of(ALNUM, 20), lambda v: ["docker", "run", "-e", f"WANDB_API_KEY={v}", "image"]),
    "netrc": (of(HEX, 40), lambda v: f"machine api.wandb.ai\n  login user\n  password {v}\n"),
    "npmrc": (of(ALNUM, 36), lambda v: f"//registry.npmjs.org/:_authToken={v}"),
    "docker config": (basic, lambda v: f'{{"auths": {{"x.io": {{"auth": "{v}"}}}}}}'),
    "tuple": (_password, lambda v: f'requests.get(url, auth=("bob", "{v}"))'),
    "HTTPBasicAuth": (_password, lambda v: f'HTTPBasicAuth("bob", "{v}")'),
    "putenv": (of(ALNUM, 20), lambda v: f'os.environ.setdefault("HF_TOKEN", "{v}")'),
    "repr of a command": (of(ALNUM, 20), lambda v: f"Command '['train.py', '--api-key', '{v}']' returned 1"),
    "list": (of(ALNUM, 20), lambda v: f'api_keys: ["{v}", "{v}x"]'),
    "annotated": (of(ALNUM, 20), lambda v: f'    api_key: str = "{v}"'),
    "annotated, optional": (of(ALNUM, 20), lambda v: f'    password: Optional[str] = "{v}"'),
    "INI": (_password, lambda v: f"[db]\nuser = bob\npassword = {v}\n"),
    "YAML block": (of(ALNUM, 40), lambda v: f"private_key: |\n  {v}\n  {v}\nname: x\n"),
    "YAML section": (of(ALNUM, 20), lambda v: f"secrets:\n  wandb: {v}\n  hf: {v}\nlr: 0.1\n"),
    "TOML section": (of(ALNUM, 20), lambda v: f'[credentials]\nwandb = "{v}"\n'),
    "XML": (_password, lambda v: f"<password>{v}</password>"),
    "XML attribute": (_password, lambda v: f'<add key="ApiKey" value="{v}" />'),
    "JSON, name and value": (_password, lambda v: f'{{"name": "DB_PASSWORD", "value": "{v}"}}'),
    "prose": (of(ALNUM, 28), lambda v: f"Incorrect API key provided: {v}. You can find your key at https://x.io"),
    "prose, password": (_password, lambda v: f"login failed for bob with password '{v}'"),
    "form data": (_password, lambda v: f"grant_type=password&username=bob&password={v}&scope=a"),
    "URL-encoded": (of(ALNUM, 30), lambda v: f"next=%2Fx%3Faccess_token%3D{v}%26a%3D1"),
    "JSON-escaped ampersand": (of(ALNUM, 30), lambda v: f"https://x.io/k?a=1\\u0026sig={v}1a\\u0026b=2"),
    "Jupyter": (of(HEX, 48), lambda v: f"http://127.0.0.1:8888/lab?token={v}"),
    "crypt": (of(ALNUM, 60), lambda v: "bob:$6$salt$"[:-1] + f"{v}:19000:0"),
    "service account": (
        of(ALNUM + "+/", 400),
        lambda v: '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\n'
        + v + '\\n-----END PRIVATE KEY-----\\n", "client_email": "x"}',
    ),
    "PEM": (
        of(ALNUM + "+/", 64),
        lambda v: f"-----BEGIN RSA PRIVATE KEY-----\n{v}\n{v}\n-----END RSA PRIVATE KEY-----\n",
    ),
    "OpenSSH": (
        of(ALNUM + "+/", 70),
        lambda v: f"key:\n-----BEGIN OPENSSH PRIVATE KEY-----\n{v}\n{v}\n-----END OPENSSH PRIVATE KEY-----\nx",
    ),
    "PEM, cut": (of(ALNUM + "+/", 64), lambda v: f"-----BEGIN PRIVATE KEY-----\n{v}\n{v[:30]}"),
    "PEM, encrypted": (
        of(ALNUM + "+/", 64),
        lambda v: f"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n{v}\n",
    ),
}  # fmt: skip
"""Whole places with a secret of their own kind."""


def leaves(masked: str, secret: str) -> str | None:
    """The piece of a secret that a masked text still shows: eight characters of it, or most of a short one."""
    length = min(8, max(5, len(secret) - 3))
    pieces = (secret[at : at + length] for at in range(len(secret) - length + 1))
    return next((piece for piece in pieces if piece in masked), None)


def masked(place: str | list[str]) -> str:
    """What is written down of a text or of a command line."""
    return mask_text(place) if isinstance(place, str) else "\n".join(mask_arguments(place))


def cases(seed: int) -> Iterator[tuple[str, str, str | list[str]]]:
    """What it is, the secret, and the text or the command line that holds it."""
    rng = Random(seed)
    for issuer, make in ISSUED.items():
        for place, put in ANYWHERE.items():
            secret = make(rng)
            yield f"{issuer} in {place}", secret, put(secret)
    shapes = list(SHAPES.items())
    for name in NAMES:
        for place, put_named in NAMED.items():
            shape, make = rng.choice(shapes)
            secret = make(rng)
            yield f"{name} ({shape}) in {place}", secret, put_named(name, secret)
    for what, (make, put) in OTHERS.items():
        for _ in range(3):
            secret = make(rng)
            yield what, secret, put(secret)


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Mask every case; a harmless word must come out as it went in."""
    del scratch
    for group, listed in ((SECRETS, cases(seed)), (HELD_OUT, held_out(seed))):
        for name, secret, place in listed:
            left = leaves(masked(place), secret)
            yield Attempt(group, name, None if left is None else f"{masked(place)[:200]!r} shows {left}")
    for words in ARGUMENTS:
        out = list(mask_arguments(words.split()))
        yield Attempt(HARMLESS, words, None if out == words.split() else f"became {' '.join(out)}")
    for text in (*TEXTS, *ARGUMENTS):
        out_text = mask_text(text)
        yield Attempt(HARMLESS, text[:60], None if out_text == text else f"became {out_text[:200]!r}")
