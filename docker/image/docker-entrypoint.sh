#!/bin/sh
# Environment variables become a configuration, and this process the command: see docs/DOCKER-ENVIRONMENT.md.
# The kernel drops signals that process 1 has no handler for. Until Python has installed one, they wait.
exec env --block-signal=TERM --block-signal=INT /opt/triokeeper/bin/triokeeper entrypoint "$@"
