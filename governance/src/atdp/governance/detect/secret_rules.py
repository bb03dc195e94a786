"""The rules of credentials: provider tokens, keys, passwords in URLs, assignments and commands.

The rules are this module's own. Every match of a rule contains one of the rule's key words, so a
text without key words costs little. The group `secret` of its pattern is what is replaced:
`password=hunter2` becomes `password=<SECRET_…>`. A pseudonym is not a secret.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from atdp.governance.redact.pseudonyms import PSEUDONYM

_NOT_A_PSEUDONYM: Final = rf"(?!{PSEUDONYM})"
_LEFT_EDGE: Final = r"(?<![A-Za-z0-9-])"
_RIGHT_EDGE: Final = r"(?![A-Za-z0-9-])"
"""Edges of a token. An underscore may be emphasis, or tie the token to a word."""
_ASSIGNED_NAMES: Final = (
    r"pass(?:word|wd|phrase|code)?|secret(?:[_-]?(?:key|token))?|client[_-]?secret"
    r"|api[_ -]?(?:key|token|secret)|apikey|access[_-]?(?:key|token)|refresh[_-]?token"
    r"|auth[_-]?(?:key|token)|private[_-]?key|session[_-]?token|account[_-]?key"
    r"|shared[_-]?access[_-]?key|ssh[_-]?key|(?:signing|encryption|master|deploy)[_-]?key"
    # The working directory has the same name as some passwords.
    r"|pwd(?=['\"]?\s{0,3}[=:]\s{0,3}(?!['\"]?(?:[/~.]|[A-Za-z]:\\)))|credentials?"
)
_BEARER_NAME: Final = (
    r"(?<!page[_-])(?<!page)(?<!next[_-])(?<!next)(?<!continuation[_-])(?<!continuation)"
    r"(?<!sync[_-])(?<!sync)(?<!cursor[_-])(?<!cursor)token"
)
"""A name that also stands for pages of results and for words of language models. So its value must
look like a secret."""
_OPTION: Final = r"[^\r\n|;&]{0,300}?\s"
"""The text that stands between the name of a command and one of its options."""
_OPTION_VALUE: Final = rf"['\"]?{_NOT_A_PSEUDONYM}(?P<secret>(?![$<;|&])[^\s'\"]{{1,200}})"


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretRule:
    """One kind of credential. `words` are lower case; `pattern` has the group `secret`."""

    name: str
    words: tuple[str, ...]
    pattern: str
    ignore_case: bool = False


def _token(name: str, prefix: str, body: str, *words: str) -> SecretRule:
    """Return the rule of a token with a fixed prefix."""
    pattern = f"{_LEFT_EDGE}(?P<secret>{prefix}{body}){_RIGHT_EDGE}"
    return SecretRule(name=name, words=words, pattern=pattern)


def _phrase(name: str, words: str, pattern: str) -> SecretRule:
    """Return a rule whose `words` name the secret, in any case."""
    return SecretRule(name=name, words=tuple(words.split()), pattern=pattern, ignore_case=True)


RULES: Sequence[SecretRule] = (
    SecretRule(
        name="private-key",
        words=("-----begin",),
        pattern=r"(?P<secret>-----BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
        r"(?:-----END[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z))",
    ),
    SecretRule(
        name="aws-access-key",
        words=("akia", "asia", "abia", "acca"),
        # The form is fixed, so a word of lower case may touch it.
        pattern=rf"{_LEFT_EDGE}(?P<secret>(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}})(?![A-Z0-9-])",
    ),
    _token(
        "github",
        "(?:gh[pousr]_|github_pat_)",
        "[A-Za-z0-9_]{22,255}",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
    ),
    _token(
        "gitlab",
        "gl(?:pat|ptt|dt|rt|soat)-",
        "[A-Za-z0-9_.-]{20,64}",
        "glpat-",
        "glptt-",
        "gldt-",
        "glrt-",
        "glsoat-",
    ),
    _token("slack", "xox[abeoprs]-", "[A-Za-z0-9-]{10,250}", "xox"),
    SecretRule(
        name="slack-webhook",
        words=("hooks.slack.com",),
        pattern=r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9+/]{20,80})",
    ),
    _token(
        "stripe",
        "(?<!_)(?:sk|rk|pk|whsec)_(?:(?:live|test|prod)_)?",
        "[A-Za-z0-9]{16,250}(?!_)",
        "sk_",
        "rk_",
        "pk_",
        "whsec_",
    ),
    _token("model-provider", "sk-(?:ant-|proj-|or-|svcacct-)?", "[A-Za-z0-9_-]{20,250}", "sk-"),
    _token("google-api-key", "AIza", "[A-Za-z0-9_-]{35}", "aiza"),
    _token("google-oauth", r"ya29\.", "[A-Za-z0-9_-]{20,500}", "ya29."),
    _token("google-oauth-secret", "GOCSPX-", "[A-Za-z0-9_-]{20,60}", "gocspx-"),
    _token("sendgrid", r"SG\.", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}", "sg."),
    _token("npm", "npm_", "[A-Za-z0-9]{36}", "npm_"),
    _token("pypi", "pypi-", "[A-Za-z0-9_-]{50,250}", "pypi-"),
    _token("hugging-face", "hf_", "[A-Za-z0-9]{30,60}", "hf_"),
    _token("digitalocean", "do[opr]_v1_", "[a-f0-9]{64}", "_v1_"),
    _token("databricks", "dapi", "[a-f0-9]{32}", "dapi"),
    _token("shopify", "shp(?:at|ca|pa|ss)_", "[a-fA-F0-9]{32}", "shp"),
    _token("square", "(?:sq0[a-z]{3}-|EAAA)", "[A-Za-z0-9_-]{22,60}", "sq0", "eaaa"),
    _token("mailgun", "key-", "[a-f0-9]{32}", "key-"),
    _token("linear", "lin_api_", "[A-Za-z0-9]{32,64}", "lin_api_"),
    _token("atdp", "atdp_", "[0-9a-f]{12}_[A-Za-z0-9_-]{43}", "atdp_"),
    _token(
        "json-web-token",
        "eyJ",
        r"[A-Za-z0-9_-]{8,8000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{0,2000}",
        "eyj",
    ),
    SecretRule(
        name="url-password",
        words=("://",),
        pattern=r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@'\"<>]{0,200}:"
        rf"{_NOT_A_PSEUDONYM}(?P<secret>[^\s/@'\"]{{1,200}})@",
    ),
    _phrase(
        "authorization",
        "bearer basic authorization token",
        r"(?:\b(?:bearer|basic)|\bauthorization['\"]?\s*[:=]\s*['\"]?(?:token|apikey)?)\s+"
        rf"{_NOT_A_PSEUDONYM}(?P<secret>[A-Za-z0-9+/_.~-]{{16,4000}}={{0,2}})",
    ),
    _phrase(
        "assignment",
        "pass pwd secret key token credential",
        # The name may be part of a longer one (DB_PASSWORD, "userPassword"). The value ends at a
        # quote, or at white space or a separator. A value that begins like a variable ($PASSWORD,
        # ${PASSWORD}, $(pass show x)) refers to a secret and is not one itself.
        rf"(?:{_ASSIGNED_NAMES})['\"]?\s{{0,3}}(?:=>|:=|[=:])\s{{0,3}}(?:"
        rf"(?P<quote>['\"]){_NOT_A_PSEUDONYM}"
        r"(?P<secret>(?:(?!(?P=quote))[^\r\n]){3,400})(?P=quote)"
        rf"|{_NOT_A_PSEUDONYM}(?!\$[A-Za-z_{{(])(?P<secret>[^\s'\",;&<>(){{}}\[\]]{{4,4000}}))",
    ),
    _phrase(
        "token-assignment",
        "token",
        rf"{_BEARER_NAME}['\"]?\s{{0,3}}(?:=>|:=|[=:>])\s{{0,3}}['\"]?{_NOT_A_PSEUDONYM}"
        r"(?P<secret>(?=[A-Za-z_.~+/-]{0,200}[0-9])(?=[0-9_.~+/-]{0,200}[A-Za-z])"
        r"[A-Za-z0-9_.~+/-]{8,4000}={0,2})(?![(\[.A-Za-z0-9])",
    ),
    _phrase(
        "markup",
        "pass secret key credential",
        rf"(?:{_ASSIGNED_NAMES})>\s{{0,20}}{_NOT_A_PSEUDONYM}"
        r"(?P<secret>[^\s<>]{3,4000})\s{0,20}</",
    ),
    SecretRule(
        name="option",
        words=("--",),
        pattern=r"(?<![\w-])--?(?:[a-z0-9]{1,30}-){0,4}(?:password|passwd|passphrase|passcode|secret"
        r"|token|api-?key|(?:access|secret|private)-key)(?:=|\s{1,3})['\"]?"
        rf"{_NOT_A_PSEUDONYM}(?P<secret>(?![-$<{{\[(])(?![A-Z_]{{1,40}}\b)[^\s'\"]{{4,4000}})",
    ),
    SecretRule(
        name="command",
        words=(
            *("curl ", "mysql", "mariadb", "sshpass ", "mongo", " login ", "redis-cli ", "ldap"),
            *("zip -", "7z ", "sqlcmd "),
        ),
        pattern=r"\b(?:"
        rf"curl\b{_OPTION}(?:-[uU]|--(?:proxy-)?user)[ =]?['\"]?[^\s:'\"]{{1,100}}:"
        rf"|(?:mysql|mariadb)(?:-?(?:dump|admin|import|sh|check))?\b{_OPTION}-p(?=\S)"
        rf"|7z\b{_OPTION}-p(?=\S)"
        r"|(?:sshpass|mongo(?:sh|dump|restore|import|export)?|unzip|zip|sqlcmd"
        rf"|(?:docker|podman|az|oc)\s{{1,3}}login)\b{_OPTION}-[pP][ =]?(?!-)"
        rf"|redis-cli\b{_OPTION}-a[ =]"
        rf"|ldap[a-z]{{1,10}}\b{_OPTION}-w[ =]?"
        rf"){_OPTION_VALUE}",
    ),
    _phrase(
        "cookie",
        "cookie curl",
        r"(?:\b(?:set-)?cookie['\"]?\s{0,3}[:=]\s{0,3}['\"]?"
        rf"|\bcurl\b{_OPTION}(?:-b|--cookie)[ =]?['\"]?){_NOT_A_PSEUDONYM}"
        r"(?P<secret>[^\s'\";=,(){}<>\[\]]{1,200}=(?!=)(?:\"[^\"\r\n]{0,4000}\"|[^\r\n'\"]){1,4000})",
    ),
    _phrase(
        "stated-password",
        "pass pin",
        r"\b(?:password|passcode|passphrase|pin(?: code)?)\s+(?:is|was)\s*:?\s*['\"]?"
        rf"{_NOT_A_PSEUDONYM}(?P<secret>(?=[^\s'\"]*[0-9!@#$%^&*])"
        r"[^\s'\"<>]{3,100}[^\s'\"<>.,;:!?])",
    ),
)
