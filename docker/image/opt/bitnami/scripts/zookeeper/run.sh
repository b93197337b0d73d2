#!/bin/sh
# Bitnami's command: runs a server, configured by Bitnami's variables.
exec /docker-entrypoint.sh /opt/bitnami/scripts/zookeeper/run.sh "$@"
