"""Secrets written down after the masker was finished: other names, places and issuers than it was made with.

The first score, before anything was mended by it: 1,730 of 2,064 masked (84 %). It counts as any other since.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable, Iterator

ALNUM = string.ascii_letters + string.digits
HEX = string.digits + "abcdef"

NAMES = (
    "SNOWFLAKE_PASSWORD", "spark.hadoop.fs.s3a.secret.key", "spring.datasource.password",
    "DJANGO_SECRET_KEY", "RAILS_MASTER_KEY", "JWT_SIGNING_SECRET", "encryptionPassphrase",
    "TF_VAR_db_password", "BORG_PASSPHRASE", "LABELBOX_API_KEY", "label_studio_token",
    "ROBOFLOW_API_KEY", "PINECONE_API_KEY", "TWINE_PASSWORD", "ANACONDA_API_TOKEN",
    "determined_auth_token", "CLOUDSDK_AUTH_ACCESS_TOKEN", "GH_PAT", "SLACK_BOT_TOKEN",
    "tg_bot_token", "ssh_key_passphrase", "keystorePassword", "ldapBindPassword", "bind_pw",
    "vault_secret_id", "DOCKER_AUTH_CONFIG", "consumerSecret", "access_token_secret",
    "service_account_key", "sasToken", "storageAccountKey", "primaryConnectionString", "ES_PASS",
    "IMAP_PWD", "RUNPOD_API_KEY", "zhipu_api_key", "DASHSCOPE_API_KEY", "moonshot_api_key",
    "LITELLM_MASTER_KEY", "aws_sk", "S3_SECRET", "minio_root_password", "gitlab_ci_job_token",
    "npm_auth_token", "user_password", "rootPassword", "admin_passwd", "webhookSecret",
)  # fmt: skip

Put = Callable[[str, str], "str | list[str]"]
PLACES: dict[str, Put] = {
    "properties": lambda n, v: f"a.b=1\n{n}={v}\nc=2\n",
    "properties, colon": lambda n, v: f"{n} : {v}\n",
    "HCL": lambda n, v: f'resource "x" "y" {{\n  {n} = "{v}"\n}}',
    "compose, list": lambda n, v: f"    environment:\n      - {n}={v}\n      - A=1\n",
    "compose, mapping": lambda n, v: f"    environment:\n      {n}: {v}\n      A: 1\n",
    "Dockerfile": lambda n, v: f"FROM x\nENV {n}={v}\nRUN y\n",
    "Dockerfile, old": lambda n, v: f"FROM x\nENV {n} {v}\nRUN y\n",
    "Makefile": lambda n, v: f"{n} := {v}\nall:\n",
    "fish": lambda n, v: f"set -x {n} {v}",
    "systemd": lambda n, v: f'Environment="{n}={v}"',
    "sbatch": lambda n, v: f"#SBATCH --export=ALL,{n}={v}",
    "srun": lambda n, v: ["srun", f"--export=ALL,{n}={v}", "python", "train.py"],
    "env": lambda n, v: ["env", f"{n}={v}", "python", "train.py"],
    "ssh": lambda n, v: ["ssh", "node1", f"cd x && {n}={v} python train.py"],
    "JSON log": lambda n, v: f'{{"level":"info","msg":"starting with {n}={v} and lr=0.1"}}',
    "logfmt": lambda n, v: f'level=info {n}="{v}" step=3',
    "dataclass": lambda n, v: f"Config(lr=0.1, {n.replace('.', '_')}='{v}', steps=3)",
    "pprint": lambda n, v: f"{{'lr': 0.1,\n '{n}': '{v}',\n 'steps': 3}}",
    "setter": lambda n, v: f"config['{n}'] = '{v}'  # see the wiki",
    "keyword with a call": lambda n, v: f"connect(host, {n.replace('.', '_')}=str('{v}'))",
    "configparser": lambda n, v: f"config.set('main', '{n}', '{v}')",
    "arrow": lambda n, v: f"{n} => '{v}',",
    "arrow, bare": lambda n, v: f"{n} -> {v}",
    "ps": lambda n, v: f"alice 1234 99.0 python train.py --{n} {v} --lr 0.1",
    "one dash": lambda n, v: ["tool.exe", f"-{n}", v],
    "Java": lambda n, v: ["java", f"-D{n}={v}", "-jar", "x.jar"],
    "kubectl": lambda n, v: ["kubectl", "create", "secret", "generic", "x", f"--from-literal={n}={v}"],
    "helm": lambda n, v: ["helm", "install", "x", "--set", f"a.{n}={v}"],
    "docker": lambda n, v: ["docker", "run", f"--env={n}={v}", "image"],
    "retries": lambda n, v: (
        f"HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: /v1?{n}={v} (Caused by X)"
    ),
    "fragment": lambda n, v: f"redirected to https://x.io/cb#{n}={v}&state=1",
    "table": lambda n, v: f"| lr | 0.1 |\n| {n} | {v} |\n",
    "box": lambda n, v: f"│ {n} │ {v} │",
    "traceback": lambda n, v: f'  File "x.py", line 3, in f\n    client = Client({n.replace(".", "_")}="{v}")\n',
    "comment": lambda n, v: f"# TODO remove: {n} = {v}",
    "JSON, list of pairs": lambda n, v: f'[{{"key": "{n}", "value": "{v}"}}]',
    "escaped twice": lambda n, v: f'"{{\\\\\\"{n}\\\\\\": \\\\\\"{v}\\\\\\"}}"',
    "quoted YAML key": lambda n, v: f'"{n}": "{v}"\n',
    "INI, no spaces": lambda n, v: f"[x]\n{n}={v}\n",
    "bytes": lambda n, v: f"{n.replace('.', '_')} = b'{v}'",
}

ISSUED: dict[str, Callable[[random.Random], str]] = {}


def _of(alphabet: str, length: int, prefix: str = "") -> Callable[[random.Random], str]:
    return lambda rng: prefix + "".join(rng.choices(alphabet, k=length))


ISSUED |= {
    "Together": _of(ALNUM + "-_", 43, "tgp_v1_"),
    "Cerebras": _of(ALNUM.lower(), 48, "csk-"),
    "Vercel": _of(ALNUM, 36, "vercel_blob_rw_"),
    "SonarQube": _of(HEX, 40, "squ_"),
    "Anyscale": _of(ALNUM, 26, "esecret_"),
    "Langfuse": lambda r: "sk-lf-" + "-".join(_of(HEX, n)(r) for n in (8, 4, 4, 4, 12)),
    "ElevenLabs": _of(HEX, 48, "sk_"),
    "Cohere": _of(ALNUM, 40),
    "Google refresh": _of(ALNUM + "-_", 98, "1//0g"),
    "Stripe hook": _of(ALNUM, 32, "whsec_"),
    "Hugging Face OAuth": _of(ALNUM + "-_", 100, "hf_oauth_eyJ"),
    "Facebook": _of(ALNUM, 180, "EAAG"),
    "Buildkite": _of(ALNUM, 40, "bkua_"),
    "Harness": lambda r: "pat." + _of(ALNUM, 22)(r) + "." + _of(HEX, 24)(r) + "." + _of(ALNUM, 20)(r),
    "Dynatrace": lambda r: "dt0c01." + _of(ALNUM.upper(), 24)(r) + "." + _of(ALNUM.upper(), 64)(r),
    "1Password": _of(ALNUM, 250, "ops_eyJ"),
    "Fastly": _of(ALNUM + "-_", 32),
    "JWT": lambda r: ".".join(
        base64.urlsafe_b64encode(text).decode().rstrip("=")
        for text in (b'{"typ":"JWT","alg":"RS256"}', b'{"uid":"%d"}' % r.getrandbits(60), r.randbytes(256))
    ),
}
ANYWHERE: dict[str, Callable[[str], str | list[str]]] = {
    "header of curl": lambda v: f"> authorization: Bearer {v}\n> accept: */*",
    "header of a tool": lambda v: ["http", "GET", "https://x.io", f"Authorization:Bearer {v}"],
    "log": lambda v: f"[rank0] uploading with {v}",
    "list": lambda v: f"tokens = ['{v}', 'x']",
    "clone": lambda v: f"git clone https://oauth2:{v}@gitlab.local/x/y.git",
    "clone, user": lambda v: f"remote: https://{v}:x-oauth-basic@github.com/x/y.git",
    "environment dump": lambda v: f"HOME=/root X_ACCESS_TOKEN={v} PATH=/bin",
    "cookie": lambda v: f"Cookie: a=1; auth={v}",
}

_VALUES = (
    _of(ALNUM, 20),
    _of(HEX, 32),
    _of(ALNUM + "+/", 44),
    lambda r: r.choice(["correct", "horse", "battery", "staple", "otter"]) + "-" + _of(ALNUM, 6)(r),
    lambda r: _of(ALNUM, 8)(r) + "@" + _of(ALNUM, 4)(r),
)


def held_out(seed: int) -> Iterator[tuple[str, str, str | list[str]]]:
    """What it is, the secret, and the text or the command line that holds it."""
    rng = random.Random(seed)
    for name in NAMES:
        for place, put in PLACES.items():
            secret = rng.choice(_VALUES)(rng)
            yield f"{name} in {place}", secret, put(name, secret)
    for issuer, make in ISSUED.items():
        for place, put_anywhere in ANYWHERE.items():
            if issuer == "Fastly" and place in {"log", "list"}:
                continue  # 32 characters without a name or a prefix: a file of Google Drive has 33
            secret = make(rng)
            yield f"{issuer} in {place}", secret, put_anywhere(secret)
