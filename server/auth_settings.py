"""Which authentication a configuration names, and which it demands of every client."""

from server.config_error import INVALID_ARGUMENTS
from server.config_sources import Sources
from server.config_values import comma_list, true_only

PROVIDER_PREFIX = "zookeeper.authProvider."
X509_PROVIDER = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"
PROVIDERS = frozenset(
    {X509_PROVIDER}
    | {
        f"org.apache.zookeeper.server.auth.{scheme}AuthenticationProvider"
        for scheme in ("Digest", "IP", "SASL", "Ensemble")
    }
)


def read_auth_providers(sources: Sources) -> dict[str, str]:
    """The known provider classes by their name in the key; TLS brings in x509 unless another is named."""
    properties = sources.properties
    named = {
        key.removeprefix(PROVIDER_PREFIX): value
        for key, value in properties.items()
        if key.startswith(PROVIDER_PREFIX)
    }
    for unknown in sorted(set(named.values()) - PROVIDERS):
        sources.warn(f"Problems loading {unknown}: no such authentication provider is known")
    providers = {name: value for name, value in named.items() if value in PROVIDERS}
    if "secureClientPort" in sources.entries:
        scheme = properties.get("zookeeper.ssl.authProvider", "x509")
        if scheme != "x509" and scheme not in named:
            wording = f"No auth provider configured for the SSL authentication scheme '{scheme}'."
            raise sources.error(wording, f"add a line authProvider.{scheme}=<class>", "ssl.authProvider")
        providers.setdefault("x509", X509_PROVIDER)
    return providers


def read_enforced_schemes(sources: Sources) -> tuple[str, ...]:
    """The schemes of which every client must have one, each of them served by this version.

    A scheme that cannot be served is an error even where a provider is configured for it: to start anyway
    would either lock everybody out or let everybody in.
    """
    key, schemes = _demanded_schemes(sources)
    for scheme in schemes:
        available = _available_schemes(sources)
        if scheme not in available:
            wording = f"Authentication scheme {scheme} is not available."
            remedy = f"this version serves {' and '.join(available)}; enforce one of these"
            raise sources.error(wording, remedy, key, summary=INVALID_ARGUMENTS)
    return schemes


def _demanded_schemes(sources: Sources) -> tuple[str, tuple[str, ...]]:
    """The key that demands schemes, and the schemes; none if authentication is not enforced."""
    properties = sources.properties
    if true_only(properties.get("zookeeper.sessionRequireClientSASLAuth", "")):
        return "sessionRequireClientSASLAuth", ("sasl",)
    key = "enforce.auth.schemes"
    if not true_only(properties.get("zookeeper.enforce.auth.enabled", "")):
        return key, ()
    schemes = comma_list(properties.get("zookeeper.enforce.auth.schemes", ""))
    if not schemes:
        wording = "zookeeper.enforce.auth.enabled is true zookeeper.enforce.auth.schemes must be  configured."
        raise sources.error(wording, "add a line enforce.auth.schemes=digest", key, summary=INVALID_ARGUMENTS)
    return key, schemes


def _available_schemes(sources: Sources) -> tuple[str, ...]:
    digest = sources.properties.get("zookeeper.DigestAuthenticationProvider.enabled", "true")
    return ("digest", "ip") if true_only(digest) else ("ip",)
