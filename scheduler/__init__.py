"""Plans, the dispatcher that hands runs to boxes, and the command bv3-schedule."""
