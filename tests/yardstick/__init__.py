"""What the tests measure by: a reference model, traces, worlds, the small scope and the seeded leaks."""
