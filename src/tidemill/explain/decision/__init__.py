"""The decision about one job, stage by stage: watch, filter, score, bind; and what was tried."""
