"""Owner commands on an agent's memory; never tools."""
