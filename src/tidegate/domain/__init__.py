"""The domain: records, the audit chain, text analysis, ranking. Pure; no storage, no clock."""
