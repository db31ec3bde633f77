"""What one sample reported: shares of the reports with their covariance, weighted or not."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.debias import Floats
from estimator.errors import NoReports


@dataclass(frozen=True, eq=False)
class Sample:
    """Respondents who were asked alike, without those who left the answer blank or refused.

    Attributes:
        n: How many they are.
        shares: Weighted share of each report.
        covariance: Of the shares, with n as divisor: diag(shares) - shares shares' over n
            without weights, else by linearization of the ratio of two weighted sums.
        kish: Kish's effective number, (sum of weights)^2 / sum of squared weights.
        whole: Whether no weights were given: then n * shares are counts.
    """

    n: int
    shares: Floats
    covariance: Floats
    kish: float
    whole: bool

    @classmethod
    def of_counts(cls, counts: Sequence[int]) -> "Sample":
        """Reports counted, in the order of the design's reports."""
        n = sum(counts)
        if min(counts) < 0:
            raise ValueError("counts must not be negative")
        if n == 0:
            raise NoReports("nobody answered: there is no estimate, which is not one of zero")
        shares = np.array(counts, np.float64) / n
        return cls(n, shares, (np.diag(shares) - np.outer(shares, shares)) / n, n, True)

    @classmethod
    def of_rows(
        cls,
        reports: Sequence[int],
        weights: Sequence[float],
        kinds: int,
        times: Sequence[int] | None = None,
    ) -> "Sample":
        """One report and one weight of each respondent.

        Args:
            reports: Their numbers in the order of the design's reports.
            weights: Above 0: how many people of the population each respondent stands for.
            kinds: How many reports there are.
            times: How many respondents each entry stands for; one each, if None.
        """
        weight = np.asarray(weights, np.float64)
        often = np.ones(len(weight)) if times is None else np.asarray(times, np.float64)
        if not often.sum():
            raise NoReports("nobody answered: there is no estimate, which is not one of zero")
        if not np.all(np.isfinite(weight) & (weight > 0)):
            raise ValueError("weights must be finite and above 0")
        weight = (
            weight / weight.max()
        )  # Only ratios count, and squares must neither overflow nor vanish.
        own = np.eye(kinds)[np.asarray(reports, np.int64)]
        total = often @ weight
        shares = (often * weight) @ own / total
        off = (own - shares) * (weight / total)[:, None]
        covariance = off.T @ (often[:, None] * off)
        kish = float(total**2 / (often @ weight**2))
        return cls(int(often.sum()), shares, covariance, kish, False)

    def loosened(self) -> Floats:
        """Return the shares with four more answers, spread evenly (Agresti and Coull, 1998).

        Reports that nobody gave are not impossible: few answers that are all alike are no proof.
        """
        more = 4 / len(self.shares)
        return (self.kish * self.shares + more) / (self.kish + 4)

    def effective(self, among: NDArray[np.bool_]) -> float:
        """Return how many unweighted respondents would give the share of some reports as exactly.

        Never more than Kish's number: where one weight outweighs all others the estimated variance
        is near 0, and would call three respondents as good as hundreds.

        Args:
            among: Which reports.
        """
        share = float(self.shares[among].sum())
        variance = float(self.covariance[np.ix_(among, among)].sum())
        if self.whole or variance <= 0:
            return self.kish
        return min(self.kish, share * (1 - share) / variance)
