# SPDX-License-Identifier: MIT
"""A disk that loses power: reads what powercut.so wrote down and makes the folder as it may be
found afterwards.

What is certain: the bytes of a file up to its last fsync, and the entries of the folder (files
made, renamed, removed) up to the folder's last fsync. Everything after that is left to chance: a
disk may have kept none of it, all of it, what came first, or any of it, a write in pieces of a
sector.

After an fsync that failed, the kernel forgets that the bytes were to be written: a later fsync that
works says nothing about them. They stay in doubt until they are written again.
"""
import os
import random

SECTOR = 512
CHANCES = ("none", "none", "all", "first", "any")


class File:
    """Bytes that are certain, and what was done since: (number, offset, bytes)."""

    def __init__(self, content=b""):
        self.certain = bytearray(content)
        self.since = []  # offset None: cut or grown to a length, which is in place of bytes
        self.doubtful = []  # likewise: what a failed fsync was about


def write_into(content, offset, piece):
    if offset is None:
        del content[piece:]
        content.extend(bytes(piece - len(content)))
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset:offset + len(piece)] = piece


def without(write, later):
    """The parts of a doubtful write that a later one has not written over."""
    number, offset, piece = write
    _, start, new = later
    if start is None or offset is None:
        return [write]
    end, stop = offset + len(piece), start + len(new)
    if stop <= offset or start >= end:
        return [write]
    parts = []
    if offset < start:
        parts.append((number, offset, piece[:start - offset]))
    if end > stop:
        parts.append((number, stop, piece[stop - offset:]))
    return parts


class Choice:
    """What a disk keeps of what is not certain."""

    def __init__(self, seed, last):
        self.dice = random.Random(seed)
        self.kind = self.dice.choice(CHANCES)
        self.first = self.dice.randint(0, last)

    def keeps(self, number):
        if self.kind == "any":
            return self.dice.random() < 0.5
        return self.kind == "all" or (self.kind == "first" and number <= self.first)

    def pieces(self, number, offset, piece):
        """The parts of a write that were kept."""
        if offset is None or self.kind != "any":
            return [(offset, piece)] if self.keeps(number) else []
        kept, at = [], 0
        while at < len(piece):
            step = SECTOR - (offset + at) % SECTOR
            if self.keeps(number):
                kept.append((offset + at, piece[at:at + step]))
            at += step
        return kept


class Disk:
    """Begins with a folder in which everything is certain."""

    def __init__(self, folder):
        self.now = {}  # name -> File, as the program sees it
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                self.now[name] = File(file.read())
        self.certain = dict(self.now)
        self.since = []  # (number, {name: File or None}): each change is whole or not at all
        self.opened = {}
        self.number = 0

    def rename_all(self, entries):
        for name, file in entries.items():
            if file is None:
                self.now.pop(name, None)
            else:
                self.now[name] = file
        self.since.append((self.number, entries))

    def replay(self, log):
        """Takes in the whole log; True when the program was killed by it."""
        with open(log, "rb") as file:
            while line := file.readline():
                kind, *words = line.decode().split()
                self.number += 1
                if kind == "W":
                    handle, offset, length = words
                    self.written(handle, int(offset), file.read(int(length)))
                elif kind == "K":
                    return True
                else:
                    getattr(self, "on_" + kind)(*words)
        return False

    def written(self, handle, offset, piece):
        self.opened[handle].since.append((self.number, offset, piece))

    def on_O(self, handle, how, name):
        if how == "new":
            self.rename_all({name: File()})
        self.opened[handle] = self.now[name]
        if how == "empty":
            self.written(handle, None, 0)

    def on_T(self, handle, length):
        self.written(handle, None, int(length))

    def on_S(self, handle, how):
        file = self.opened[handle]
        if how == "failed":
            file.doubtful += [write for write in file.since if write[1] is not None]
            file.since = [write for write in file.since if write[1] is None]
            return
        for write in file.since:
            write_into(file.certain, *write[1:])
            file.doubtful = [part for old in file.doubtful for part in without(old, write)]
        file.since = []

    def on_D(self, how):
        if how == "failed":
            return
        for _, entries in self.since:
            self.settle_entries(self.certain, entries)
        self.since = []

    def on_R(self, old, new):
        self.rename_all({new: self.now[old], old: None})

    def on_L(self, old, new):
        self.rename_all({new: self.now[old]})

    def on_U(self, name):
        self.rename_all({name: None})

    @staticmethod
    def settle_entries(names, entries):
        for name, file in entries.items():
            if file is None:
                names.pop(name, None)
            else:
                names[name] = file

    def cut(self, seed, folder):
        """Makes `folder` what is found when the power is back. Says what kind of luck it was."""
        choice = Choice(seed, self.number)
        names = dict(self.certain)
        for number, entries in self.since:
            if choice.keeps(number):
                self.settle_entries(names, entries)
        os.makedirs(folder)
        for name, file in names.items():
            content = bytearray(file.certain)
            for number, offset, piece in file.doubtful + file.since:
                for at, kept in choice.pieces(number, offset, piece):
                    write_into(content, at, kept)
            with open(os.path.join(folder, name), "wb") as made:
                made.write(content)
        return choice.kind
