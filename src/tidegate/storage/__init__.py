"""Storage: compartments, views and the control store, by several providers."""
