"""Whether a variable, an option or a key is named like a secret, word by word.

Training is full of names that only look secret (`max_tokens`, `pad_token`, `key_padding_mask`, `sort_key`),
and a report that masks those cannot be read. So a name counts by its words and their neighbours.
"""

from __future__ import annotations

from functools import lru_cache

from .forms import Expression, words

PLAIN, WEAK, STRONG = 0, 1, 2
"""No secret; a secret if the value looks random; a secret whatever the value."""

LONGEST = 200
"""Characters of a name that are read, its last ones."""


_WORD = Expression(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

PASSWORDS = words(
    "password passwords passwd passwds passphrase passcode passw pword pswd psw passwort kennwort senha "
    "contrasena wachtwoord haslo parol"
)
"""Words for a password."""

_NOUNS = PASSWORDS | words(
    "secret secrets credential credentials cred creds apikey apikeys accesskey accesskeys secretkey "
    "privatekey authtoken accesstoken apitoken refreshtoken bearertoken clientsecret jwt cookie cookies "
    "dsn psk passkey authkey accountkey sharedaccesskey sharedaccesssignature connectionstring connstr "
    "authorization userpass userpwd basicauth otp totp webhook webhooks xauth usertoken masterkey "
    "signingkey encryptionkey"
)
"""Words that make a name secret by themselves."""

_ENDINGS = ("password", "passwd", "passphrase", "apikey", "secretkey", "accesskey", "accesstoken", "authtoken",
            "clientsecret", "privatekey", "apitoken")  # fmt: skip
"""Ends of words that several words were joined into: `dbpassword`."""

_WEAK_NOUNS = words("sig signature sas hmac sessionid phpsessid jsessionid salt auth authentication bearer pw")
"""Words that name a secret only when the value looks like one."""

_SUFFIXES = words(
    "value values val v str string text plain plaintext raw env var variable b64 base enc encoded "
    "encrypted hex json prod production dev development test testing staging primary secondary old new "
    "backup main default current previous live real ro rw readonly write read admin root local remote "
    "internal external shared"
)
"""Words that may follow a secret's name and change nothing."""

_SETTINGS = words(
    "length len min max policy field fields file files path paths dir folder name names count size type "
    "types timeout url uri endpoint prompt provider manager store storage backend ref reference header "
    "headers prefix expiry expires expiration ttl age hint strength required enabled disabled format "
    "encoding location mode scope scopes class label index idx limit lookup column hash hashing algorithm "
    "rotation version versions validator validation check checker callback error errors request requests "
    "method callable factory filter scanner scan santa sauce sharing sock socket arn region user username "
    "mount volume group level jar parser"
)
"""Words after a secret's name that turn it into a setting about one: `password_min_length`."""

VENDORS = words(
    "wandb openai anthropic claude comet neptune mlflow clearml trains huggingface hf hub aws amazon "
    "azure gcp gcs google gemini vertex github gh gitlab gitea bitbucket cohere mistral groq replicate "
    "together fireworks deepseek perplexity xai nvidia ngc databricks dapi snowflake pinecone weaviate "
    "qdrant milvus slack discord teams telegram twilio sendgrid stripe mailgun mailchimp datadog dd "
    "sentry grafana newrelic pagerduty docker dockerhub npm pypi twine vault heroku digitalocean "
    "cloudflare vercel netlify supabase firebase mongodb mongo redis postgres postgresql pg pgsql mysql "
    "mariadb mssql sql oracle rabbitmq amqp kafka elastic elasticsearch minio s3 r2 b2 oss swift dropbox "
    "kaggle roboflow labelbox langchain langsmith langfuse helicone elevenlabs assemblyai deepgram "
    "serpapi tavily jina voyage runpod modal vast paperspace lambdalabs prefect dagster airflow dvc "
    "swanlab polyaxon determined sagemaker bedrock jira atlassian confluence notion airtable linear figma "
    "jupyter ray dask lakefs alibaba aliyun tencent baidu volcengine yandex nexus artifactory jfrog "
    "consul okta ldap smtp imap ftp sftp ssh sudo db database ssl tls studio anyscale zhipu dashscope "
    "moonshot litellm rails django"
)
"""Services whose keys and tokens are credentials."""

_OWNERS = VENDORS | words(
    "api access secret private auth authentication authorization encryption decryption signing account "
    "storage service license licence deploy deployment subscription client webhook shared preshared "
    "master root admin consumer app application functions instrumentation ingestion hmac aes rsa fernet "
    "cookie session bot oauth refresh security bearer personal registry ci cd push pull upload publish "
    "runner join integration customer workspace project org organization team machine server proxy agent "
    "ingest write read my user job sas csrf xsrf identity mfa totp login gateway"
)
"""Words before KEY or TOKEN that make it a credential in any case of letters."""

_ENTRIES = words("user write read project team org server agent my identity login session service hub")
"""Of those, the ones before KEY that also name an entry of a dictionary."""

_PLURAL_OWNERS = words("api access secret private auth storage account refresh bearer oauth personal")
_ID_OWNERS = words("access secret private aws s3")
_PEOPLE = words("user root admin mail bind")
_KINDS = words("key keys token tokens")
_TEXTS = words("str string text value values val plain raw")
"""Words after TOKEN that mean the piece of text."""

_PLAIN_KEYS = words(
    "sort primary foreign public label image text input output dict state cache group query map metric "
    "column target data feature shard hot num value index partition target video audio caption prompt "
    "host monitor batch loss"
)
"""Words before KEY in an environment variable that name a place in data."""

_PLAIN_TOKENS = words(
    "pad padding eos bos unk cls sep mask masked special image img video audio speech vision start end "
    "stop begin next last first prev previous current per num max min n new old prefix suffix vocab added "
    "add decoder encoder forced label think thinking target source src tgt by prompt sentinel placeholder "
    "each every word sub subword byte char character tool eot eom sot eoh eod eoc eop bop boc response "
    "answer instruction assistant human role chat turn message system boi eoi patch register class time "
    "text visual latent separator delimiter newline space blank ctc pred predicted input output one "
    "single trigger draft total avg mean extra fim infill language lang task object entity relation "
    "action state observation obs reward memory mem segment seg loc location distillation dist pause "
    "filler dummy null empty unused reserved begin_of_text end_of_text query key value anchor soft hard "
    "learnable virtual global local bpe unigram wordpiece sentencepiece bits loss cost accepted rejected "
    "generated valid ignored ignore dropped kept long short rare unknown known fake real noise caption "
    "summary title code math number digit punctuation document doc sentence paragraph utterance speaker "
    "timestamp frame grid point box mlm lm nlg bert gpt seq sequence continuation completion context many "
    "few no with without transcribe translate"
)
"""Words before TOKEN that make it a token of text."""

_SWITCHES = words("use has with allow enable disable require requires no is needs show hide skip generate")
"""First words of switches: `use_auth_token=True` is not a secret, and a string there is masked by its form."""

STEMS = Expression(
    r"auth|bearer|co(?:okie|nn|ntrasena)|cred|dsn|h(?:mac|aslo)|jwt|ke(?:y|nnwort)|otp|"
    r"p(?:a(?:ss|rol|t\b)|wd|sw|word|w\b|sk)|s(?:ecret|ig|as|ess|alt|enha|k\b)|token|w(?:ebhook|achtwoord)"
)
"""What every secret name holds, in small letters."""


def small(text: str) -> str:
    """The text in small letters, each character where it was."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_SMALL)


_SMALL = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def is_secret_name(name: str) -> bool:
    """Whether a variable, option or key is named like a secret: `WANDB_API_KEY`, `--hub-token`, `apiKey`."""
    return secrecy(name) == STRONG and name.lstrip("-").upper() not in {"PWD", "OLDPWD"}


@lru_cache(maxsize=4096)
def secrecy(name: str) -> int:
    """`STRONG`, `WEAK` or `PLAIN`."""
    name = name[-LONGEST:]
    if not STEMS.search(small(name)):
        return PLAIN
    written = _WORD.findall(name[2:] if name.startswith("-D") else name)  # a property of Java's
    words = [word.lower() for word in written]
    if not words or (len(words) > 1 and words[0] in _SWITCHES):
        return PLAIN
    return max(
        _with_tail(words, at, word.isupper() and written[max(0, at - 1)].isupper()) for at, word in enumerate(written)
    )


@lru_cache(maxsize=4096)
def is_password_name(name: str) -> bool:
    """Whether the secret is one that a person may have chosen: a short word or number is one, too."""
    words = [word.lower() for word in _WORD.findall(name[-LONGEST:])]
    return any(word in PASSWORDS or word in {"pwd", "pass"} or word.endswith("password") for word in words)


def _with_tail(words: list[str], at: int, shouted: bool) -> int:
    """How secret the word at a place makes the name, with what follows it."""
    word, before, tail = words[at], words[at - 1] if at else "", words[at + 1 :]
    level = _level(word, before, shouted)
    if level == PLAIN or not tail:
        return level
    if tail == ["id"]:  # AWS_ACCESS_KEY_ID and a role's secret_id; `token_id` is a number of the vocabulary
        known = word in _NOUNS or (word == "key" and before in _ID_OWNERS)
        return level if known else PLAIN
    if word == "token" and before not in _OWNERS and tail[0] in _TEXTS:
        return PLAIN
    while tail and (tail[0].isdigit() or tail[0] in _SUFFIXES):
        tail = tail[1:]
    if not tail or any(other in _NOUNS or other in _KINDS for other in tail):
        return PLAIN if tail else level  # the later word decides
    if {tail[0], tail[-1]} & _SETTINGS:
        return PLAIN
    if VENDORS.intersection(tail):
        return level
    if word in _KINDS:
        return WEAK if before in _OWNERS else PLAIN
    return level if shouted else WEAK


def _level(word: str, before: str, shouted: bool) -> int:
    """How secret a word and the one before it are."""
    if word in _NOUNS or (len(word) > 8 and word.endswith(_ENDINGS)) or word == "pwd":
        return STRONG
    if word == "token":
        if before in _PLAIN_TOKENS:
            return PLAIN
        return STRONG if not before or shouted or before in _OWNERS else WEAK
    if word == "key" and (before in _OWNERS or shouted):
        plain = before in _PLAIN_KEYS if shouted else before in _ENTRIES
        return (PLAIN if shouted else WEAK) if plain else STRONG
    if word == "key" and before:
        return PLAIN if before in _PLAIN_KEYS | _PLAIN_TOKENS else WEAK
    if word in {"keys", "tokens"}:
        return STRONG if before in _PLURAL_OWNERS else PLAIN
    if word == "pass":  # DB_PASS, smtp_pass; not `forward_pass`
        return STRONG if before and (shouted or before in VENDORS | _PEOPLE) else PLAIN
    if word in {"pat", "sk", "pw"} and before in VENDORS | _PEOPLE:
        return STRONG
    if word == "auth" and before and shouted:
        return STRONG
    if word == "string":
        return STRONG if before in {"connection", "conn"} else PLAIN
    if word.endswith(("token", "key")) and word[: -5 if word.endswith("token") else -3] in _OWNERS:
        return STRONG
    return WEAK if word in _WEAK_NOUNS else PLAIN
