"""Triokeeper under systemd: the unit, and telling systemd when the server is ready."""
