"""Secrets are masked; what only looks like one stays readable. All other forms are in `benchmarks/attack`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.model.redaction import is_secret_name, mask_cut, mask_text, mask_value

SECRET_NAMES = [
    "WANDB_API_KEY", "HF_TOKEN", "token", "api_key", "apiKey", "--api-key", "--hub-token", "SECRET", "MY_PASSWORD",
    "DB_PWD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "OPENAI_KEY", "accessToken", "client_secret",
    "AZURE_STORAGE_CONNECTION_STRING", "SSH_PRIVATE_KEY", "KEY", "password", "GOOGLE_APPLICATION_CREDENTIALS",
    "API_KEYS", "SENTRY_DSN", "API_KEY_2", "REDIS_PASSWORD_1", "x-api-key", "SMTP_PASS",
]  # fmt: skip
PLAIN_NAMES = [
    "tokenizer", "max_tokens", "num_tokens", "keypoints", "TOKENIZERS_PARALLELISM", "pad_token", "eos_token",
    "mask_token_id", "key", "keys", "SSH_AUTH_SOCK", "sort_key", "key_padding_mask", "num_key_value_heads",
    "tokens_per_second", "KEYBOARD", "monkey", "XAUTHORITY", "MAX_TOKENS", "token_type_ids", "special_tokens",
    "image_token", "label_key", "forward_pass", "MASTER_ADDR", "bos_token_id", "tokenizer_name", "num_passes",
    "key_dim", "query_key", "NUM_KEY", "EOS_TOKEN", "secretary", "token_budget", "keyframe", "kv_key",
    "password_min_length", "authors",
]  # fmt: skip
HEX40 = "3f1b0c5a9d7e2468ace0" + "13579bdf02468ace1357"
ENVIRONMENT = [
    ("PGPASSWORD", "s3cr" + "3t7x", "***"),
    ("PGPASSWORD", "80211", "***"),
    ("HF_TOKEN", "1234", "1234"),
    ("PWD", "/home/alice", "/home/alice"),
    ("RUN_NOTE", "gh" + "p_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "***"),
    ("DATABASE_URL", "postgresql://optuna:s3cr3t@db.local/study", "postgresql://***@db.local/study"),
    ("AWS_ACCESS_KEY_ID", "AK" + "IAQ3EGXAMPL7KEYS42", "***"),
]


def test_names():
    assert [name for name in SECRET_NAMES if not is_secret_name(name)] == []
    assert [name for name in PLAIN_NAMES if is_secret_name(name)] == []


@pytest.mark.parametrize(("name", "value", "shown"), ENVIRONMENT)
def test_a_secret_of_the_environment_is_masked(name, value, shown):
    assert mask_value(name, value) == shown


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("python train.py --api-key abcd --lr 1e-3", "python train.py --api-key *** --lr 1e-3"),
        ("WANDB_API_KEY=abcdef python x", "WANDB_API_KEY=*** python x"),
        (f"wandb: paste your key and hit enter: {HEX40}", "wandb: paste your key and hit enter: ***"),
        ("sk-proj-abc123def456ghi789jkl", "***"),
        ("ghp_ABCDEFGHIJKLMNOP1234", "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("https://user:pa55@host/x", "https://***@host/x"),
        ('{"api_key": "zz zz"}', '{"api_key": "***"}'),
        ("os.environ['WANDB_API_KEY'] = 'abc123'", "os.environ['WANDB_API_KEY'] = '***'"),
        ("wandb.login(key='0123456789abcdef')", "wandb.login(key='***')"),
        ("Authorization: Bearer abc123def456", "Authorization: Bearer ***"),
        ("https://x.y/z?token=abcdef&a=1", "https://x.y/z?token=***&a=1"),
        ("  password: hunter", "  password: ***"),
        ("Please set a HF_TOKEN to enable more", "Please set a HF_TOKEN to enable more"),
        ("MY_SECRET='two words'", "MY_SECRET='***'"),
    ],
)
def test_secrets_in_text_are_masked(text, masked):
    assert mask_text(text) == masked
    assert mask_text(masked) == masked


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_masking_twice_is_masking_once(text):
    once = mask_text(text)
    assert mask_text(once) == once


@given(st.sampled_from(SECRET_NAMES[:12]), st.from_regex(r"[A-Za-z0-9+/]{9,40}", fullmatch=True))
def test_no_secret_survives_in_quotes(name, secret):
    assert secret not in mask_text(f'{name}="{secret}"')
    assert secret not in mask_text(f"{name.strip('-')}: '{secret}'")


SHAPES = [
    "token=", "x://", "--token ", "hf_", "login(", "sk-", "sk-1", "eyJ", "a:", "bearer a1", "a@", "a:b@", "token=$",
    "token='$", "token=[", "password=", "password: ", "password: |\n", "-----BEGIN RSA PRIVATE KEY-----", "key ",
    "-----BEGIN ", "api key ", "secret\n", "wandb\n", "mysql -p", "curl -u ", "a", "A1", "/", "\\n", "\\", "'", '"',
    "://a:b@", "https://hooks.slack.com/", "$2a$", "0:AA", "cookie:", "authorization: ", "basic dXNl ", "x-y-z_",
    "password: Optional[", "'token', ", "{", "[(", "secrets:\n", "[secrets]\n", "tokens:", "MNO.", "sig=", "?key=",
    "| token ", "name: TOKEN\n  value: ", "<password>", "\r\n", "é", "\x1b[31m", "Aa0", "pass", "%3D", "\u0130token=",
]  # fmt: skip


def cpu_seconds(text):
    start = time.process_time()
    mask_text(text)
    return time.process_time() - start


@pytest.mark.slow
def test_no_text_of_16_kb_takes_long():
    slow = {
        shape: seconds
        for shape in SHAPES
        for text in (shape * (16_000 // len(shape)), "token='" + shape * (8_000 // len(shape)))
        if (seconds := cpu_seconds(text)) > 0.25  # 0.01 to 0.03 s on a quiet machine; quadratic ones took 0.5
    }
    assert not slow


@pytest.mark.parametrize("put", ["{}", "password={}", 'api_key="{}"', "https://u:{}@h/", "Bearer {}"])
@pytest.mark.parametrize("before", range(0, 60, 20))
def test_a_cut_leaves_no_readable_head_of_a_secret(put, before):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    text = "x " * 20 + "y" * before + " " + put.format(secret)
    for whole in (text, text + " z" * 3000, text + "w" * 9000):
        for longest in range(40, 160, 24):
            shown = mask_cut(whole, longest)
            assert len(shown) <= longest
            assert not any(secret[at : at + 6] in shown for at in range(30))
