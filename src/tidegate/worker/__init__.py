"""The worker: wakes agents when runs are due, and delivers results."""
