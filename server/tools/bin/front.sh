#!/bin/sh
# One of ZooKeeper's scripts, without Java: reads the environment files, then runs `triokeeper scripts run`.
script=zkServer.sh

# java.env and zookeeper-env.sh may be written for bash, as the shell of ZooKeeper's own scripts.
[ -n "${BASH_VERSION:-}" ] || ! command -v bash >/dev/null || exec bash "$0" "$@"

ZOOBINDIR="$(CDPATH="" cd "$(dirname "$0")" && pwd)"
[ -e "$ZOOBINDIR/zkEnv.sh" ] || ZOOBINDIR="$(dirname "$(readlink -f "$0")")"
. "$ZOOBINDIR/zkEnv.sh"

TRIOKEEPER_SCRIPT="$0"
TRIOKEEPER_ENV_SOURCED=yes
export ZOOCFGDIR ZOOCFG ZOO_LOG_DIR TRIOKEEPER TRIOKEEPER_SCRIPT TRIOKEEPER_ENV_SOURCED
exec "$TRIOKEEPER" scripts run "$script" "$@"
