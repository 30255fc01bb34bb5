#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A fuzzer of the real server, over sockets: API requests, callers of the gateway, answers of upstreams
and targets, answers of AI providers. DARUMA_BIN names the program; one that is built with sanitizers says
more.

    fuzz/server/run.py [--rounds N | --seconds N] [--seed N]
    fuzz/server/run.py --only FILE...       plays these inputs alone

What is kept in fuzz/corpus/server is played first. Then come rounds: one life of the server each, with
inputs that follow from the round's seed alone. Ends with `N passed, N failed`. A round that fails says its
seed, and leaves the inputs of its last batch in FOUND; those that fail by themselves are named: they
belong into the corpus. An input there may have `never`: what no answer to it may have in it.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import sys
import time
import traceback

import answer_side
import api_side
import gateway_side
import mutate
import rig

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "fuzz/corpus/server"
FOUND = ROOT / "build-fuzz/server-found"
ISOLATE_SECONDS = 60
BATCHES, INPUTS, AT_ONCE = 6, 60, 12  # of a round, of a batch, and inputs at once
SIDES = (api_side.make, api_side.make, gateway_side.make, gateway_side.make, answer_side.make_upstream,
         answer_side.make_upstream, answer_side.make_provider)


def load(path):
    told = json.loads(path.read_text(encoding="utf-8"))
    return {**told, "pieces": [piece.encode("latin-1") for piece in told["pieces"]]}


def save(told, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = {**told, "pieces": [piece.decode("latin-1") for piece in told["pieces"]]}
    path.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


def batch_of(seed, number):
    dice = mutate.Dice(f"{seed}/{number}")
    return [dice.choice(SIDES)(dice) for _ in range(INPUTS)]


def play(life, inputs):
    """Some at once; then everything has to hold."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = [one for one in pool.map(lambda told: attempt(life, told), inputs) if one]
    if wrong:
        life.check()  # what the server says about it says more
        raise rig.Finding("\n".join(wrong))
    life.check()


def attempt(life, told):
    """What is wrong, as text."""
    try:
        life.play(told)
        return None
    except rig.Finding as finding:
        return f"{finding}\n  of {told}"
    except OSError as wrong:  # no connection: check() says why
        return f"{wrong!r}\n  of {told}"


def alone(inputs, seed):
    """What is wrong with a life of these inputs and no others; None: nothing."""
    life = None
    try:
        life = rig.Rig(seed)
        play(life, inputs)
        life.end()
        return None
    except Exception:  # whatever it is, it is told
        return traceback.format_exc()
    finally:
        if life is not None:
            life.close()


def isolate(inputs, seed):
    """Saves them, and says which fail by themselves."""
    names = []
    for number, told in enumerate(inputs):
        save(told, FOUND / f"{seed}-{number:02d}.json")
    deadline = time.monotonic() + ISOLATE_SECONDS
    for number, told in enumerate(inputs):
        if time.monotonic() < deadline and alone([told], seed):
            names.append(str(FOUND / f"{seed}-{number:02d}.json"))
    return names


def round_of(seed):
    """(count of inputs, what is wrong)"""
    life, inputs = None, []
    try:
        life = rig.Rig(seed)
        for number in range(BATCHES):
            inputs = batch_of(seed, number)
            play(life, inputs)
        life.end()
        return life.played, None
    except Exception:  # whatever it is, the seed is told
        wrong = traceback.format_exc()
        if life is not None:
            life.close()
            life = None
        return 0, wrong + f"fails by itself: {isolate(inputs, seed) or 'none of them'}"
    finally:
        if life is not None:
            life.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("DARUMA_FUZZ_SEED") or 78))
    parser.add_argument("--only", nargs="+", type=pathlib.Path, default=[])
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which ends the server too
    began, played, passed, failed = time.monotonic(), 0, 0, 0
    kept = [load(path) for path in asked.only or sorted(CORPUS.glob("*.json"))]
    for seed in range(4) if kept else ():  # each store and number of threads
        wrong = alone(kept, seed)
        passed, failed, played = passed + (not wrong), failed + bool(wrong), played + len(kept)
        if wrong:
            print(f"the corpus, seed {seed}: {wrong}", flush=True)
    seed = asked.seed
    while not asked.only and (time.monotonic() - began < asked.seconds if asked.seconds else
                              seed < asked.seed + asked.rounds):
        count, wrong = round_of(seed)
        passed, failed, played = passed + (not wrong), failed + bool(wrong), played + count
        if wrong:
            print(f"FAILED with SEED={seed}: {wrong}", flush=True)
        seed += 1
    print(f"fuzz_server: seed {asked.seed}: {played} inputs, {seed - asked.seed} rounds, "
          f"{time.monotonic() - began:.0f} s")
    print(f"{passed} passed, {failed} failed")
    return failed != 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
