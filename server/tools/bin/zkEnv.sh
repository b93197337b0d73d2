# Sourced by the scripts beside this file, and by people's own: sets the variables that ZooKeeper's zkEnv.sh
# sets, from the environment, the arguments `--config DIR`, and zookeeper-env.sh and java.env in that directory.
# There is no JVM, so JAVA and CLASSPATH only keep scripts going that mention them.
triokeeper=triokeeper
bindir=/usr/bin

TRIOKEEPER="${TRIOKEEPER:-$triokeeper}"
ZOOBINDIR="${ZOOBINDIR:-$bindir}"
ZOOKEEPER_PREFIX="${ZOOBINDIR}/.."

if [ $# -gt 1 ] && [ "$1" = "--config" ]; then
    ZOOCFGDIR="$2"
    shift 2
fi
if [ -z "${ZOOCFGDIR:-}" ]; then
    if [ -e "$ZOOKEEPER_PREFIX/conf" ]; then
        ZOOCFGDIR="$ZOOBINDIR/../conf"
    else
        ZOOCFGDIR="$ZOOBINDIR/../etc/zookeeper"
    fi
fi
case "$ZOOCFGDIR" in
-*) ZOOCFGDIR="./$ZOOCFGDIR" ;; # a path, not an option
esac

set -a # these files set variables for the server, with or without the word export
if [ -f "$ZOOCFGDIR/zookeeper-env.sh" ]; then
    . "$ZOOCFGDIR/zookeeper-env.sh"
fi
if [ -f "$ZOOCFGDIR/java.env" ]; then
    . "$ZOOCFGDIR/java.env"
fi
set +a

ZOOCFG="${ZOOCFG:-zoo.cfg}"
case "$ZOOCFG" in
/*) ;;
*) ZOOCFG="$ZOOCFGDIR/$ZOOCFG" ;;
esac
ZOO_LOG_DIR="${ZOO_LOG_DIR:-$ZOOKEEPER_PREFIX/logs}"
JAVA="${JAVA:-java}"
CLASSPATH="$ZOOCFGDIR:${CLASSPATH:-}"
