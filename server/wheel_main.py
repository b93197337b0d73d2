"""`python -m triokeeper`; the wheel carries this file as `triokeeper/__main__.py`."""

from triokeeper import main

main()
