"""Jobs: what an agent does later, when it is due, and what became of it."""
