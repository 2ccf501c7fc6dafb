//! Statistics over the records of a run: percentiles, comparison of arms, expectations, decision.
