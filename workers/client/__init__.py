"""The product's HTTP interface and its session socket, with a timeout on every call.

Never opens `/ws/dashboard`: that socket counts as a connected renderer and would hide a dead one.
"""
