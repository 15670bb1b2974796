"""The reference stack: a stand-in for the product that speaks its protocol and knows each run's truth."""
