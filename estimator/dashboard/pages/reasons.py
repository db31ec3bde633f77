"""Why reports and uploads are refused, and what each reason means for the operator."""

OF_THE_STORE = {
    "already_reported": (
        "the device has reported in this epoch",
        "A few are apps that lost their state. Many: look at the app's newest version.",
    ),
    "budget_exhausted": (
        "the device's lifetime budget is spent",
        "As promised to users. Many: you ask more than devices can pay for.",
    ),
    "clone_suspected": (
        "whole uploads: two devices use one identity",
        "Restored or copied phones. Many: somebody replays uploads.",
    ),
    "epoch_closed": (
        "the report came after its epoch was closed",
        "Devices that were offline for long. Many: the server was away, or grace is too short.",
    ),
    "not_invited": (
        "a survey by invitation, and a device without an admission to it",
        "Somebody answers who was not invited; or the survey was open and is not any more.",
    ),
    "too_early": (
        "the report's epoch has not begun",
        "Devices whose clocks are ahead.",
    ),
    "unknown_fingerprint": (
        "another version of the metric than any registered",
        "An app shipped a metrics.toml that no server was given: register it.",
    ),
    "unknown_metric": (
        "a metric that was never registered",
        "An app shipped a metrics.toml that no server was given: register it.",
    ),
}
"""Counted in reports, but for clones; since the store began."""

OF_SERVERS = {
    "unavailable": (
        "the store or the server could not serve",
        "Devices keep their reports and come again. See Health.",
    ),
    "internal": ("the server failed", "A fault of ours: see the server's log."),
    "malformed": (
        "not of the required form",
        "Strangers who try addresses. With a valid MAC it is a broken or forged client.",
    ),
    "bad_mac": (
        "the MAC is missing or wrong",
        "Strangers, or another key file than the one that enrolled the devices.",
    ),
    "bad_write_key": (
        "the write key is missing or wrong",
        "Strangers, or an app that carries a retired key.",
    ),
    "bad_admission": (
        "no admission to a survey that goes on",
        "Strangers, or respondents who come when the survey is over.",
    ),
    "unknown_survey": (
        "nobody is invited to that survey, or it is over",
        "Strangers, or links that are older than the survey.",
    ),
    "invitation_unknown": (
        "no such invitation",
        "Somebody guesses, or links that were taken back.",
    ),
    "invitation_used": (
        "the invitation was used before",
        "A link that several people have, or a browser that lost what it kept.",
    ),
    "identity_revoked": (
        "the device's master key is retired",
        "Expected after a rotation: devices enrol anew.",
    ),
    "unknown_sealing_key": (
        "sealed to a key that this server lacks",
        "Copy keys.json to every machine, or an app carries a retired key.",
    ),
    "sealing_required": (
        "a plain upload, and only sealed ones are taken",
        "Apps of before sealing: they must be updated.",
    ),
    "erased": ("the device was erased", "A copy of it still reports; it is told to stop."),
    "rate_limited": (
        "too many devices enrol now",
        "A launch, or somebody farms devices. See the limits of enrolment.",
    ),
    "too_large": ("more bytes than an upload has", "Strangers; no app of yours sends that."),
    "length_required": ("no length in advance", "The proxy passes uploads on unbuffered."),
    "unsupported_media": ("a body of another type", "Strangers; no app of yours sends that."),
}
"""Counted in uploads and enrolments by each server, since it was started."""
