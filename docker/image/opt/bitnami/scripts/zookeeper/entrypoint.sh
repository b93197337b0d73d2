#!/bin/sh
# Bitnami's name of the entry point.
exec /docker-entrypoint.sh "$@"
