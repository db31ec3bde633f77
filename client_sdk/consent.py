"""Who objects to collection besides the host app: the user's and the machine's environment.

DO_NOT_TRACK (https://consoledonottrack.com) is a user's wish. The other variables are set by
build servers and test runs, whose answers are nobody's.
"""

from collections.abc import Mapping

WISH = "DO_NOT_TRACK"
MACHINES = (
    "CI",
    "CONTINUOUS_INTEGRATION",
    "GITHUB_ACTIONS",
    "GITLAB_CI",
    "TF_BUILD",
    "JENKINS_URL",
    "TEAMCITY_VERSION",
    "BUILDKITE",
    "CIRCLECI",
    "APPVEYOR",
    "CODEBUILD_BUILD_ID",
    "PYTEST_VERSION",
    "PYTEST_CURRENT_TEST",
    "TOX_ENV_NAME",
    "NOX_CURRENT_SESSION",
)
_NO = ("", "0", "false", "no", "off")


def objection(environment: Mapping[str, str]) -> str | None:
    """Return the first variable that asks for silence, None if none does.

    A variable that is empty or says 0, false, no or off does not ask.
    """
    for name in (WISH, *MACHINES):
        if environment.get(name, "").strip().lower() not in _NO:
            return name
    return None
