"""Named measures of scatter, each with unit, denominator and source."""
