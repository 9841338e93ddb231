"""A realm of Kerberos for tests: a KDC of Debian's package on a loopback port, as a process of the test, with keytabs for a
broker and for users; and a broker of either kind whose listener LOGIN wants tickets of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from compat_tests.brokers import CLASSES
from compat_tests.reference.kafka import HOST, RealKafka, free_port
from compat_tests.waiting import wait_for

REALM: Final = "OTTLA.TEST"
SERVICE: Final = "kafka"
BROKER: Final = f"{SERVICE}/localhost"
MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_NEEDED: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PLACES: Final = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def _tool(name: str) -> str:
    found = shutil.which(name, path=_PLACES)
    assert found, f"{name} is missing; on Debian: apt-get install krb5-kdc krb5-admin-server krb5-user"
    return found


class Realm:
    """See the module's docstring."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "krb5.conf"
        port = free_port()
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n"
            f" dns_canonicalize_hostname = false\n udp_preference_limit = 1\n permitted_enctypes = aes256-cts-hmac-sha1-96\n"
            f"[realms]\n {REALM} = {{\n  kdc = {HOST}:{port}\n }}\n"
        )
        profile = directory / "kdc.conf"
        profile.write_text(
            f"[kdcdefaults]\n kdc_listen = {HOST}:{port}\n kdc_tcp_listen = {HOST}:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {directory}/principal\n  key_stash_file = {directory}/stash\n"
            f"  acl_file = {directory}/kadm5.acl\n  max_life = 1h\n }}\n"
            f"[logging]\n kdc = FILE:{directory}/kdc.log\n default = FILE:{directory}/kdc.log\n"
        )
        self.environment = dict(os.environ) | {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(profile)}
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        for name in (BROKER, "kafka/elsewhere", "alice", "alice/admin", "mallory"):
            self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {name}")
        self._kdc = subprocess.Popen(
            [_tool("krb5kdc"), "-n", "-r", REALM], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for(self._gives_tickets, "the KDC gives tickets")

    def _run(self, tool: str, *arguments: str) -> None:
        done = subprocess.run([_tool(tool), *arguments], env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{tool} {arguments}: {done.stdout}{done.stderr}"

    def _gives_tickets(self) -> bool:
        command = [_tool("kinit"), "-c", f"FILE:{self.directory}/probe", "-k", "-t", str(self.keytab("alice")), "alice"]
        return subprocess.run(command, env=self.environment, capture_output=True, check=False).returncode == 0

    def keytab(self, name: str) -> Path:
        """The keytab of a principal."""
        path = self.directory / f"{name.replace('/', '-')}.keytab"
        if not path.exists():
            self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -norandkey -k {path} {name}")
        return path

    def tickets(self, name: str) -> Path:
        """A cache with a ticket of this user."""
        path = self.directory / f"{name.replace('/', '-')}.tickets"
        self._run("kinit", "-c", f"FILE:{path}", "-k", "-t", str(self.keytab(name)), name)
        return path

    def jaas(self, name: str) -> str:
        """The login module of a principal with a keytab."""
        return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{self.keytab(name)}" principal="{name}@{REALM}";'

    def stop(self) -> None:
        self._kdc.terminate()
        self._kdc.wait(10)


class KerberosBroker:
    """See the module's docstring. `settings` come on top; an underscore stands for a dot."""

    def __init__(self, kind: str, directory: Path, realm: Realm, **settings: str) -> None:
        self.kind = kind
        self.port, self.login_port, controller = (free_port() for _ in range(3))
        clients = f"PLAINTEXT://{HOST}:{self.port},LOGIN://localhost:{self.login_port}"
        self.broker = CLASSES[kind](
            directory / kind,
            {
                "listeners": f"{clients},CONTROLLER://{HOST}:{controller}",
                "advertised.listeners": clients,
                "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.kerberos.service.name": SERVICE,
                "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1-$2](alice-.*)s/-/_/,DEFAULT",
                "listener.name.login.gssapi.sasl.jaas.config": realm.jaas(BROKER),
                "connection.failed.authentication.delay.ms": "10",
                "ottla.login.failures.per.minute": "0",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:alice",
                **{name.replace("_", "."): value for name, value in settings.items()},
            },
            self.port,
        )
        if isinstance(self.broker, RealKafka):
            self.broker.jvm_options = (f"-Djava.security.krb5.conf={realm.config}",)
        else:
            self.broker.settings["java.security.krb5.conf"] = str(realm.config)

    def start(self) -> None:
        """Raises BrokerFailed."""
        self.broker.start()

    def stop(self) -> None:
        self.broker.stop()

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.login_port}"
