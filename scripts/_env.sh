# Sourced by the other scripts: an environment with the project in it. Uses the active virtual environment where there is one,
# else makes .venv. An install is repeated only when pyproject.toml, setup.py or the source of a module it compiles changed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

prepare() { # prepare EXTRAS: '' or '[dev,compat]'
    local venv="${VIRTUAL_ENV:-$root/.venv}" stamp sources
    if [ ! -x "$venv/bin/python" ]; then
        python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ottla needs Python 3.11 or newer as python3" >&2; exit 1; }
        python3 -m venv "$venv" || { echo "python3 -m venv failed; on Debian: apt-get install python3-venv" >&2; exit 1; }
    fi
    export PATH="$venv/bin:$PATH" VIRTUAL_ENV="$venv"
    sources=$(grep -o 'ottla/[a-z_/]*\.py' setup.py | sed 's|^ottla/||' | xargs cat pyproject.toml setup.py | cksum)
    stamp="$venv/.ottla-installed" # a line for each set of extras that is there; '' is part of every other
    if ! grep -qsF "$sources $1" "$stamp"; then
        echo "installing ottla$1 into $venv, once; this takes about a minute" >&2
        # What ottla needs is fetched and unpacked while ottla itself is compiled, which waits for nothing of it.
        beside install python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
        if ! requirements "$1" | python -m pip install --quiet --disable-pip-version-check --requirement /dev/stdin; then
            joined install || true
            echo "pip could not install what ottla$1 needs: it needs the package index, its message above says more" >&2
            exit 1
        fi
        python -m compileall -q ottla wire log server commands console # or the first start compiles, and takes a quarter of a second longer
        joined install || { echo "pip could not install ottla$1: its message above says more" >&2; exit 1; }
        grep -qsF "$sources" "$stamp" || : >"$stamp"
        echo "$sources $1" >>"$stamp"
    fi
}

requirements() { # requirements EXTRAS: the packages that pyproject.toml names, one a line
    python -c 'if True:
        import sys, tomllib
        with open("pyproject.toml", "rb") as file:
            project = tomllib.load(file)["project"]
        wanted = [*project["dependencies"]]
        for extra in filter(None, sys.argv[1].strip("[]").split(",")):
            wanted += project["optional-dependencies"][extra]
        print(*wanted, sep="\n")' "$1"
}

need_java() { # the tests compare with Apache Kafka itself, which Maven fetches
    if ! command -v javac >/dev/null || ! command -v mvn >/dev/null; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt-get update -qq && apt-get install -y -qq openjdk-17-jdk-headless maven >/dev/null
        else
            echo "the tests need a JDK (17 or newer) and Maven; on Debian: apt-get install openjdk-17-jdk-headless maven" >&2
            exit 1
        fi
    fi
}

need_kerberos() { # the tests start a KDC, and the package gssapi is built with Kerberos's headers
    local missing=() tool
    for tool in krb5kdc:krb5-kdc kadmin.local:krb5-admin-server kinit:krb5-user krb5-config:libkrb5-dev gcc:gcc; do
        PATH=$PATH:/usr/sbin command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
        else
            echo "the tests need a Kerberos KDC and its headers; on Debian: apt-get install ${missing[*]}" >&2
            exit 1
        fi
    fi
}

need_strace() { # the tests kill a process at chosen system calls
    if ! command -v strace >/dev/null; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt-get update -qq && apt-get install -y -qq strace >/dev/null
        else
            echo "the tests need strace; on Debian: apt-get install strace" >&2
            exit 1
        fi
    fi
}

need_client_tools() { # the tests run kcat, strace, and clients in Go, JavaScript and Rust
    local missing=() tool
    for tool in go:golang node:nodejs npm:npm cargo:cargo gcc:gcc make:make pkg-config:pkg-config kcat:kcat strace:strace; do
        command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
    done
    pkg-config --exists openssl 2>/dev/null || missing+=(libssl-dev) # librdkafka of the Rust client is built with the system's
    if [ ${#missing[@]} -gt 0 ]; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt-get update -qq && apt-get install -y -qq "${missing[@]}" >/dev/null
        else
            echo "the tests need Go 1.26, Node.js 20, npm, cargo, gcc, make, OpenSSL's headers, kcat and strace; on Debian: apt-get install ${missing[*]}" >&2
            exit 1
        fi
    fi
}

need_browser() { # the tests look at the console with it; OTTLA_CHROMIUM names another one
    if ! command -v "${OTTLA_CHROMIUM:-chromium}" >/dev/null; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null
        else
            echo "the tests need chromium; on Debian: apt-get install chromium" >&2
            exit 1
        fi
    fi
}

build_clients() { # fetches and builds those clients with their own tools; needs no environment, only a Python
    PYTHONPATH=. python3 -m compat_tests.programs >/dev/null
}

fetch_jars() { # Apache Kafka's, Spark's connectors and the rest that Maven knows; and archives of Kafka's classes for quick JVMs
    local pom
    PYTHONPATH=. python3 -m compat_tests.reference.maven kafka >/dev/null || return
    for pom in compat_tests/reference/poms/*.pom.xml; do
        PYTHONPATH=. python3 -m compat_tests.reference.maven "$(basename "$pom" .pom.xml)" >/dev/null || return
    done
    PYTHONPATH=. python3 -m compat_tests.class_archives
}

clients_and_jars() { build_clients && fetch_jars; }

beside() { # beside NAME COMMAND...: runs it in the background; `joined NAME` waits for it, shows what it printed and has its status
    local name=$1
    shift
    mkdir -p "$root/build/beside"
    ("$@") >"$root/build/beside/$name.log" 2>&1 &
    printf -v "beside_$name" %s "$!"
}

joined() {
    local pid="beside_$1" code=0
    wait "${!pid}" || code=$?
    cat "$root/build/beside/$1.log"
    return "$code"
}
