"""Jobs: work that an agent does later, the time when it is due, and its results."""
