"""Fifty secrets where people write them, and the words beside them that must stay readable.

Each row names the place, the text or the command line, and the secret, which is put together here so that no scanner
of the repository mistakes it for a real one.
"""

import pytest
from configs import config

from gpudoctor.model import redaction
from gpudoctor.probe.wire import masking
from gpudoctor.probe.wire.masking import mask_arguments, mask_text, mask_value

HEX40 = "3f1b0c5a9d7e2468ace0" + "13579bdf02468ace1357"
MIXED = "Zk3v9Qp7" + "Xw2Lr8Tn5Jd1"
SHORT = "s3cr" + "3t7x"
GOOGLE = "AI" + "zaSyD4f8Gh2kLm9Qw3Er5Ty7Ui1Op6As0Zx8c"
NPM = "np" + "m_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
HUB = "h" + "f_QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi"
OPENAI = "s" + "k-proj-a1B2c3D4e5F6g7H8i9J0k1L2m3N4"
GITHUB = "gh" + "p_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SLACK = "xo" + "xb-123456789012-123456789012-a1B2c3D4e5F6g7H8i9J0k1L2"
AMAZON = "AK" + "IAQ3EGXAMPL7KEYS42"
JWT = "ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dQw4w9WgXcQdQw4w9WgXcQ"

ARGUMENTS = [
    ("a short token", ["train.py", "--token", "abc", "--lr", "0.1"], "abc"),
    ("a token after an equals sign", ["train.py", "--hf-token=abc"], "abc"),
    ("a key of Google", ["python", "label.py", "--maps", GOOGLE], GOOGLE),
    ("a token of npm", ["node", "build.js", f"--registry-auth={NPM}"], NPM),
    ("a key of 40 digits behind the service", ["train.py", "--wandb", HEX40], HEX40),
    ("a key of 40 digits behind api", ["train.py", "--api", HEX40], HEX40),
    ("a key of 40 digits as an override", ["train.py", f"logger.wandb={HEX40}"], HEX40),
    ("a header of curl", ["curl", "-H", f"Authorization: Bearer {MIXED}", "https://x.io"], MIXED),
    ("a short header of curl", ["curl", "-H", "Authorization: Bearer abcdefghijk12345"], "abcdefghijk12345"),
    ("a password of mysql", ["mysql", "-uroot", f"-p{SHORT}", "runs"], SHORT),
    ("a command of a shell", ["bash", "-c", f"HF_TOKEN={HUB} python train.py"], HUB),
    ("a login", ["wandb", "login", "--relogin", HEX40], HEX40),
    ("a variable for a container", ["docker", "run", "-e", f"OPENAI_API_KEY={OPENAI}", "img"], OPENAI),
]
ENVIRONMENT = [
    ("a key", "WANDB_API_KEY", HEX40),
    ("a service's name alone", "WANDB", HEX40),
    ("a token", "HUGGING_FACE_HUB_TOKEN", HUB),
    ("a password", "PGPASSWORD", SHORT),
    ("a form under a harmless name", "RUN_NOTE", GITHUB),
    ("an address", "DATABASE_URL", f"postgresql://optuna:{SHORT}@db.local/study"),
    ("a proxy", "https_proxy", f"http://bob:{SHORT}@proxy:3128"),
    ("a hook", "SLACK_WEBHOOK_URL", f"https://hooks.slack.com/services/T0AB12CD/B0AB12CD/{MIXED}"),
    ("a session", "AWS_SESSION_TOKEN", MIXED),
    ("an identity", "AWS_ACCESS_KEY_ID", AMAZON),
]
URLS = [
    ("a query", f"GET https://api.example.com/v1/runs?api_key={MIXED}&page=2", MIXED),
    ("a user of git", f"fatal: could not read from https://{GITHUB}@github.com/x/y.git", GITHUB),
    ("a password", f"redis://:{SHORT}@cache:6379/0", SHORT),
    ("a signature", f"https://b.s3.amazonaws.com/k?X-Amz-Date=20250101&X-Amz-Signature={HEX40 * 2}", HEX40),
    ("a page of Jupyter", f"http://127.0.0.1:8888/lab?token={HEX40}", HEX40),
    ("a bot", f"https://api.telegram.org/bot123456789:AA{MIXED}{MIXED[:13]}/send", MIXED),
    ("a fragment", f"https://app.example.com/cb#access_token={JWT}&state=1", JWT),
]
CONFIGS = [
    ("YAML", f"logger:\n  api_key: {HEX40}\n  project: demo\n", HEX40),
    ("YAML, a section", f"secrets:\n  tracker: {MIXED}\nlr: 0.1\n", MIXED),
    ("YAML, a section of tokens", f"api_tokens:\n  tracker: {MIXED}\nlr: 0.1\n", MIXED),
    ("JSON", f'{{"lr": 0.1, "hub_token": "{HUB}"}}', HUB),
    ("TOML", f'[credentials]\nstore = "{MIXED}"\n', MIXED),
    ("INI", f"[db]\npassword = {SHORT}\n", SHORT),
    ("netrc", f"machine api.wandb.ai\n  login user\n  password {HEX40}\n", HEX40),
    ("a service's key", f"wandb:\n  key: {HEX40}\n", HEX40),
    ("an entry for npm", f"//registry.npmjs.org/:_authToken={NPM}", NPM),
    ("a login of Docker", '{"auths": {"x.io": {"auth": "' + "dXNlcjpzM2NyM3Q3eHl6" + '"}}}', "dXNlcjpzM2NyM3Q3eHl6"),
]
TRACEBACKS = [
    ("a refused key", f"openai.AuthenticationError: Incorrect API key provided: {OPENAI}.", OPENAI),
    ("a refused header", f"HTTPError: 401 for headers {{'Authorization': 'Bearer {MIXED}'}}", MIXED),
    ("a short header", "requests: Authorization: Bearer abcdefghijk12345\n  was refused", "abcdefghijk12345"),
    ("a key of 40 digits", f"UsageError: api key not configured (api={HEX40})", HEX40),
    ("a locals' line", f'  File "t.py", line 3\n    api = "{HEX40}"\nValueError', HEX40),
    ("a failed command", f"CalledProcessError: Command '['aws', '--secret-key', '{MIXED}']' returned 1", MIXED),
    ("a missing file", f"FileNotFoundError: /home/a/.cache/{GITHUB}/x", GITHUB),
]
SOURCE = [
    ("a call", f'wandb.login("{HEX40}")', HEX40),
    ("a keyword", f'track.init(project="x", api="{HEX40}")', HEX40),
    ("the environment", f'os.environ["COMET_API_KEY"] = "{MIXED}"', MIXED),
    ("a constant", f'MAPS = "{GOOGLE}"', GOOGLE),
    ("a default", f'parser.add_argument("--hub-token", default="{HUB}")', HUB),
    ("a client", f'client = WebClient(token="{SLACK}")', SLACK),
    ("a pair", f'requests.get(url, auth=("bob", "{SHORT}"))', SHORT),
]  # fmt: skip
TEXTS = [*URLS, *CONFIGS, *TRACEBACKS, *SOURCE]

HARMLESS_ARGUMENTS = [
    ["train.py", "--revision", HEX40],
    ["train.py", "--git-sha", HEX40, "--token-budget", "4096"],
    ["train.py", f"model.revision={HEX40}", f"data.commit={HEX40}"],
    ["train.py", "--resume", f"runs/{HEX40}/epoch=12-step=34000.ckpt"],
    ["train.py", "--wandb", "online", "--wandb_run_id", "1a2b3c4d", "--api", "v1"],
    ["train.py", "--wandb-commit", HEX40],
    ["train.py", "--cache_key", HEX40, "--sort-key", "length"],
    ["train.py", "--tokenizer", "gpt2", "--pad_token", "<pad>", "--max_tokens", "2048"],
    ["train.py", "--ckpt", "mobilenetv3_large_100_ra-f55367f5.pth", "--basic", "resnet50d_ra2-464e36ba"],
]
HARMLESS_TEXTS = [
    f"commit {HEX40} (HEAD -> main)",
    f"models--gpt2/snapshots/{HEX40}/config.json",
    f'AutoModel.from_pretrained("gpt2", revision="{HEX40}")',
    f"wandb: git commit {HEX40}",
    f"api revision {HEX40}",
    f"cache key {HEX40}",
    f"transformers @ git+https://github.com/huggingface/transformers@{HEX40}",
    "uses bearer authentication",
    "api = build_api()",
    "Basic training started with key_padding_mask",
]


def test_the_corpus_has_fifty_kinds():
    assert len(ARGUMENTS) + len(ENVIRONMENT) + len(TEXTS) >= 50


@pytest.mark.parametrize(("words", "secret"), [row[1:] for row in ARGUMENTS], ids=[row[0] for row in ARGUMENTS])
def test_a_secret_of_a_command_line_is_masked(words, secret):
    shown = mask_arguments(words)
    assert all(secret not in word for word in shown)
    assert shown[0] == words[0]


@pytest.mark.parametrize(("name", "value"), [row[1:] for row in ENVIRONMENT], ids=[row[0] for row in ENVIRONMENT])
def test_a_secret_of_the_environment_is_masked(name, value):
    assert "***" in mask_value(name, value)
    for secret in (HEX40, HUB, SHORT, GITHUB, MIXED, AMAZON):
        assert secret not in mask_value(name, value)


@pytest.mark.parametrize(("text", "secret"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_a_secret_of_a_text_is_masked(text, secret):
    shown = mask_text(text)
    assert secret not in shown
    assert "***" in shown
    assert mask_text(shown) == shown


@pytest.mark.parametrize("words", HARMLESS_ARGUMENTS, ids=" ".join)
def test_a_harmless_command_line_stays(words):
    assert list(mask_arguments(words)) == words


@pytest.mark.parametrize("text", HARMLESS_TEXTS)
def test_a_harmless_text_stays(text):
    assert mask_text(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"wandb:\n  key: {HEX40}\n", True),
        (f"api_tokens:\n  tracker: {MIXED}\n", True),
        ("api_tokens:\n  user: somebody\n", False),
        (f"model:\n  revision: {HEX40}\n", False),
        ("cache:\n  key: imagenet-train\n", False),
    ],
)
def test_an_entry_of_a_config_is_masked_by_the_same_sections_and_names(text, masked):
    file = config(text)
    assert [file.setting(entry).value == "***" for entry in file.entries.values()] == [masked]


def test_the_report_and_the_recording_share_one_masker():
    for name in ("mask_arguments", "mask_cut", "mask_text", "mask_value", "is_secret_name"):
        assert getattr(redaction, name) is getattr(masking, name)
