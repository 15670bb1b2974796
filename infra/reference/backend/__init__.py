"""The product double: the product's protocol, log lines and metrics, without the product."""
