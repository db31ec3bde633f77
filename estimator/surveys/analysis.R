# Estimates the shares anew with R's own packages, and shows them beside those of sottovoce.
#
#   Rscript analysis.R        in the directory of this file
#
# Needs RRreg, and takes rr where it is installed: install.packages(c("RRreg", "rr"))

library(RRreg)

design <- read.csv("design.csv", colClasses = "character")
expected <- read.csv("expected.csv")
numbers <- function(text) as.numeric(strsplit(text, ";", fixed = TRUE)[[1]])

for (i in seq_len(nrow(design))) {
  row <- design[i, ]
  response <- read.csv(row$file, check.names = FALSE)[[row$column]]
  cat("\n", row$column, ": ", length(response), " responses, ", row$rrreg_model,
      " p = ", row$rrreg_p, "\n", sep = "")

  # MLest = FALSE: estimates stay as they are, also below zero.
  fit <- RRuni(response = response, model = row$rrreg_model, p = numbers(row$rrreg_p),
               MLest = FALSE)
  # Warner's model gives the share of code 1 alone, forced response that of every code.
  codes <- if (row$rrreg_model == "Warner") 1 else seq_along(numbers(row$rrreg_p)) - 1
  theirs <- data.frame(code = codes, RRreg = fit$pi, RRreg_error = fit$piSE)
  if (row$rrreg_model == "Warner") {
    theirs <- rbind(theirs, data.frame(code = 0, RRreg = 1 - fit$pi, RRreg_error = fit$piSE))
  }
  ours <- expected[expected$column == row$column,
                   c("code", "answer", "share", "standard_error_n_minus_1")]
  both <- merge(ours, theirs, by = "code")
  print(both, digits = 8, row.names = FALSE)
  worst <- max(abs(both$share - both$RRreg),
               abs(both$standard_error_n_minus_1 - both$RRreg_error))
  cat("largest difference to RRreg:", format(worst, digits = 3), "\n")

  # rr estimates by maximum likelihood, so a share that is below zero or above one it cannot have.
  share <- ours$share[ours$code == 1]
  if (row$rr_design != "" && share > 0 && share < 1 && requireNamespace("rr", quietly = TRUE)) {
    data <- data.frame(response = response)
    fit <- if (row$rr_design == "mirrored") {
      rr::rrreg(response ~ 1, p = as.numeric(row$rr_p), design = "mirrored", data = data)
    } else {
      rr::rrreg(response ~ 1, p = as.numeric(row$rr_p), p0 = as.numeric(row$rr_p0),
                p1 = as.numeric(row$rr_p1), design = "forced-known", data = data)
    }
    cat("rr, share of code 1:", format(plogis(coef(fit)[[1]]), digits = 8), "\n")
  }
}
