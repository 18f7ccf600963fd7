"""Serves build/page on this machine alone, at the first free port from 8000 on, until Ctrl-C."""
import functools
import http.server
import os

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "page")


class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}

    def log_message(self, format, *args):
        pass


def main():
    for port in range(8000, 8100):
        try:
            server = http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Handler, directory=FOLDER))
        except OSError:
            continue
        print("http://127.0.0.1:%d/ (Ctrl-C ends it)" % port, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
    raise SystemExit("no port from 8000 to 8099 is free")


main()
