cd /tmp/pn/python; timeout -s KILL 400 ../.venv/bin/python -m pytest -q -x "$@" 2>&1 | tail -30
