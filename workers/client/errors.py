"""What can go wrong between the box and the product.

ProductError                 a call to the product did not give what it should
├── BackendAwayError         no answer: nobody listens, or not in time
├── BackendRefusedError      an HTTP status that is no success; carries `status`
└── CommandFailedError       a browser command's reply holds an error: the renderer's, or the backend's for it
"""

from __future__ import annotations

from broker.errors import Bv3Error


class ProductError(Bv3Error):
    """A call to the product did not give what it should."""


class BackendAwayError(ProductError):
    """The backend gave no answer in time; `may_have_arrived` is False when the request surely never reached it."""

    def __init__(self, message: str, *, may_have_arrived: bool) -> None:
        super().__init__(message)
        self.may_have_arrived = may_have_arrived


class BackendRefusedError(ProductError):
    """The backend answered with a status that is no success."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class CommandFailedError(ProductError):
    """The browser command was not carried out; the message is the product's own."""
