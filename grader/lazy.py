"""`functools.cached_property` without its lock, which costs more than most of what is worked out here.

Python 3.12 has dropped that lock as well. Each case is read by one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - used like a function
    """A property that is worked out when it is first asked for, and then stands in the instance."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> lazy[T] | T:
        """The value; the property itself when asked on the class."""
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value
