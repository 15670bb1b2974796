"""The Playwright renderer: a browser that obeys the product's commands on a machine without a screen."""
