"""The reference stack: a stand-in for the product that speaks its protocol and tells the truth about each run."""
