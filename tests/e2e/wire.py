# SPDX-License-Identifier: MIT
"""A TCP port before the socket of a PostgreSQL server, as a network that can be cut."""
import socket
import threading


class Wire:
    def __init__(self, server):
        self._path = f"{server.folder}/.s.PGSQL.5432"
        self._is_open = True
        self._lock = threading.Lock()
        self._ends = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database, user="daruma"):
        return f"postgres://{user}@127.0.0.1:{self.port}/{database}"

    def cut(self):
        """Connections that are there are closed, new ones are closed at once."""
        with self._lock:
            self._is_open = False
            ends, self._ends = self._ends, []
        for end in ends:
            self._shut(end)

    def mend(self):
        with self._lock:
            self._is_open = True

    def close(self):
        self.cut()
        self._shut(self._door)
        self._door.close()

    @staticmethod
    def _shut(end):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def _accept(self):
        while True:
            try:
                near = self._door.accept()[0]
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            with self._lock:
                if not self._is_open:
                    near.close()
                    continue
                self._ends += [near, far]
            try:
                far.connect(self._path)
            except OSError:
                near.close()
                continue
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one, other):
        try:
            while piece := one.recv(65536):
                other.sendall(piece)
        except OSError:
            pass  # cut
        self._shut(one)
        self._shut(other)
