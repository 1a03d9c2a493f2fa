"""The worker: wakes agents for what is due, and delivers results."""
