"""The worker: wakes agents when a run is due, and delivers results."""
