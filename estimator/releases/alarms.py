"""What is suspicious about a release, in words that say what it may mean."""

from estimator.releases.release import Release


def alarms(release: Release) -> list[str]:
    """Return one sentence or two for each alarm; none for a release that is withheld."""
    found = []
    if release.plausibility is not None and release.plausibility.alarm:
        found.append(
            "The reports do not look like those of honest devices: too many or too few bits, or "
            "crowds in few cohorts. Somebody may be sending made-up reports, or an app has a fault."
        )
    misfit = None if release.estimates is None else release.estimates.misfit
    if misfit is not None and misfit.alarm:
        found.append(
            "The strings that were looked for do not explain the reports: a frequent one is "
            "probably missing from the list of candidates."
        )
    return found
