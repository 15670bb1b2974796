"""The Chromium of last resort, for a machine that has none and can get none from elsewhere."""
