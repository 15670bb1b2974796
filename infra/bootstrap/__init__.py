"""Sets a clone up: from a bare Python to a Chromium that has shown a page.

Standard library only, for it runs before anything is installed. Set-up is a list of steps. Each has
a key (a hash of all that it is made from) and a soundness check, and is stamped once it has ended
well: a step that was interrupted, got broken or whose inputs changed runs again, the others do not.
Nothing outside the clone is changed, except by Debian's package manager when root lacks something.
"""
