"""The write agent: small, deterministic, dry. It sees and touches pages only by renderer commands."""
