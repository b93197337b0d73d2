#!/bin/sh
# Environment variables become a configuration, and this process the command: see docs/DOCKER-ENVIRONMENT.md.
exec /opt/triokeeper/bin/triokeeper entrypoint "$@"
