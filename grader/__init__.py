"""The grader: turns what boxes saw into verdicts, and verdicts into a scorecard."""
