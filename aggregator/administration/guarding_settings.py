"""Settings that make the server stricter or laxer: the administrators' log tells their changes."""

from aggregator.administration.admin_log import AdminLog
from aggregator.settings import ServerSettings

ACT = "settings_changed"


def note(log: AdminLog, settings: ServerSettings) -> None:
    """Record the settings that guard if they are not those that were recorded last."""
    now: dict[str, object] = {
        "SOTTOVOCE_PLAIN_UPLOADS": "accept" if settings.plain_uploads else "refuse",
        "SOTTOVOCE_ENROL_LIMIT": settings.enrol_limit,
        "SOTTOVOCE_ENROL_LIMIT_PER_NETWORK": settings.enrol_limit_per_network,
        "SOTTOVOCE_TRUSTED_PROXIES": settings.trusted_proxies,
        "SOTTOVOCE_WEB_ORIGINS": ",".join(settings.web_origins),
    }
    last = log.last(ACT)
    if last is None or dict(last.details) != now:
        log.record(ACT, **now)
