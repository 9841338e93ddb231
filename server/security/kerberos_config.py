"""Kerberos's configuration, of which a process has one for all of its brokers.

The library (MIT Kerberos) takes its path from the environment and from nowhere else, and looks there anew with each login. So a
path in the settings of a broker goes into the environment of the process, and stays there until the broker closes. Meanwhile
another broker in this process may only want the same: otherwise logins at one of the two would go by the configuration of the
other.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import ClassVar, Final

from ottla.log.config_def import ConfigError

KRB5_CONFIG: Final = "java.security.krb5.conf"
"""The setting that names the file."""
VARIABLE: Final = "KRB5_CONFIG"
"""The environment variable by which the library finds it."""


class KerberosConfig:
    """The configuration that one broker wants: the file at `path`, or the system's if the path is empty."""

    _users: ClassVar[list[KerberosConfig]] = []
    """Those in use, one for each broker of this process that has logins by Kerberos."""
    _before: ClassVar[str | None] = None
    """The variable's value before the first of them came."""
    _one_at_a_time: ClassVar[Lock] = Lock()
    """Held while these change, since each broker of a process may have a thread of its own."""

    def __init__(self, path: str) -> None:
        self.path = path

    def use(self) -> None:
        """Has the library go by this configuration until `close`. Raises ConfigError if another broker in this process uses
        another one."""
        here = KerberosConfig
        with here._one_at_a_time:
            if self in here._users:
                return
            if here._users and here._users[0].path != self.path:
                raise ConfigError(
                    f"{KRB5_CONFIG}: this broker wants {_describe(self.path)}, but another broker in this process uses "
                    f"{_describe(here._users[0].path)}, and Kerberos has one configuration for a process; name the same file, or "
                    "run the brokers in processes of their own"
                )
            if not here._users:
                here._before = os.environ.get(VARIABLE)
            here._users.append(self)
            if self.path:
                os.environ[VARIABLE] = self.path

    def close(self) -> None:
        """Uses it no more. Behind the last user the environment is as it was."""
        here = KerberosConfig
        with here._one_at_a_time:
            if self not in here._users:
                return
            here._users.remove(self)
            if here._users or not self.path:
                return
            if here._before is None:
                os.environ.pop(VARIABLE, None)
            else:
                os.environ[VARIABLE] = here._before


def _describe(path: str) -> str:
    return path or "the system's configuration"
