# SPDX-License-Identifier: MIT
"""What the figures come to, and how they are shown."""
import statistics

from page import table_of, verdict_table

NAMES = {
    "sqlite": "daruma, SQLite",
    "memory": "daruma, memory (nothing on disk)",
    "noop": "libmicrohttpd, answering without storing",
    "beanstalkd": "beanstalkd `-f0`, its own protocol",
    "bullmq": "BullMQ, redis `appendfsync always`, node:http",
    "graphile": "graphile-worker, PostgreSQL, node:http",
    "graphile_local": "graphile-worker, PostgreSQL, its local queue",
    "pgboss": "pg-boss, PostgreSQL, node:http",
}
PEERS = ["beanstalkd", "bullmq", "graphile", "pgboss"]
MIB = 1 << 20


def median(values):
    return statistics.median(list(values))


def ratios(rounds, part, whole):
    """Round by round: neighbours in time."""
    return [part(one) / whole(one) for one in rounds]


def rate(name, connections):
    return lambda one: one[name][str(connections)]["per_s"]


def best_peer(connections):
    return lambda one: max(one[name][str(connections)]["per_s"] for name in PEERS)


def with_spread(values, form="{:.2f}"):
    """The median, and what it was between."""
    values = list(values)
    text = form.format(median(values))
    if len(values) > 1:
        text += f" ({form.format(min(values))}–{form.format(max(values))})"
    return text


def row(what, reach, measured, reached):
    return {"what": what, "reach": reach, "measured": measured, "reached": bool(reached)}


def judge_enqueue(figures):
    rounds, rows = figures["enqueue"], []
    of_noop = ratios(rounds, rate("sqlite", 64), rate("noop", 64))
    rows.append(row("enqueue, 64 connections, over a libmicrohttpd that stores nothing", ">= 0.25",
                    with_spread(of_noop), median(of_noop) >= 0.25))
    for connections, reach in ((64, 2), (256, 3)):
        over = ratios(rounds, rate("sqlite", connections), best_peer(connections))
        rows.append(row(f"enqueue, {connections} connections, over the best peer", f">= {reach}",
                        with_spread(over), median(over) >= reach))
    batch = ratios(figures["batch"], lambda one: one["batch_per_s"], lambda one: one["single_per_s"])
    rows.append(row("batch enqueue, 100 in a call, over single", ">= 3", with_spread(batch),
                    median(batch) >= 3))
    return rows


def judge_delivery(figures):
    over = ratios(figures["delivery"], lambda one: one["per_s"], lambda one: one["multi_per_s"])
    return [row("delivery, each settled durably, over libcurl alone", ">= 0.5", with_spread(over),
                median(over) >= 0.5)]


def judge_lateness(late):
    what = f"lateness, {late['per_s']:,}/s due over {late['seconds']} s"
    return [row(f"{what}: p99", "<= 5 ms", f"{late['p99_us'] / 1000:.1f} ms",
                late["p99_us"] <= 5000),
            row(f"{what}: p99.9", "<= 25 ms", f"{late['p999_us'] / 1000:.1f} ms",
                late["p999_us"] <= 25000),
            row(f"{what}: early", "none", "none" if late["earliest_us"] >= 0 else "some",
                late["earliest_us"] >= 0)]


def redrive_ratios(redrive):
    """p99 of live tasks with the redrive over that without, round by round."""
    return ratios(redrive["rounds"], lambda one: one["with"]["p99_us"],
                  lambda one: one["without"]["p99_us"])


def redrive_rates(redrive):
    """Of those that were under way for their whole slot; the last one may have run out of letters."""
    return [one["with"]["redriven"] / one["with"]["seconds"] for one in redrive["rounds"]
            if one["with"]["is_whole"]]


def judge_redrive(redrive):
    asked = redrive["asked_per_s"]
    held = [rate / asked for rate in redrive_rates(redrive)]
    over = redrive_ratios(redrive)
    what = f"redrive of {redrive['letters']:,} dead letters at {asked:,}/s"
    return [row(f"{what}: the rate, over what was asked", "0.95–1.05", with_spread(held, "{:.3f}"),
                0.95 <= median(held) <= 1.05),
            row(f"{what}: p99 of live tasks' lateness, over that without", "<= 2",
                with_spread(over), median(over) <= 2)]


def judge_size(scale, resident_mb, ready_s):
    few, many = scale["at_few"], scale["at_many"]
    size = f"{scale['many']:,} waiting"
    resident = max(many["resident_loaded_bytes"], many["resident_restarted_bytes"])
    life = many["life_cpu_us"] / few["life_cpu_us"]
    return [
        row(f"{size}: resident, after loading or after a restart", f"<= {resident_mb} MB",
            f"{resident / 1e6:.0f} MB", resident <= resident_mb * 1e6),
        row(f"{size}: a life's processor time over that at {scale['few']:,}", "<= 1.3",
            f"{life:.2f}", life <= 1.3),
        row(f"{size}: ready after kill -9", f"<= {ready_s} s", f"{many['warm_s']:.2f} s",
            many["warm_s"] <= ready_s),
    ]


def judge_scale(scale):
    load = scale["load"][-1]["cpu_us"] / scale["load"][0]["cpu_us"]
    return judge_size(scale, 120, 1) + [
        row(f"{scale['many']:,} waiting: the last tenth's enqueue over the first's, processor time",
            "<= 1.3", f"{load:.2f}", load <= 1.3)]


def judge_memory(memory):
    return [row(f"{memory['connections']:,} idle connections", "<= 20 KB each",
                f"{memory['bytes_each'] / 1000:.1f} KB", memory["bytes_each"] <= 20000)]


def judge(figures):
    return (judge_enqueue(figures) + judge_delivery(figures) + judge_lateness(figures["lateness"]) +
            judge_redrive(figures["redrive"]) + judge_scale(figures["scale"]) +
            judge_size(figures["huge"], 450, 10) + judge_memory(figures["memory"]))


# --- tables ---------------------------------------------------------------------------------------


def per_s(values):
    return with_spread([value / 1000 for value in values], "{:.1f}")


def show_enqueue(rounds, connections):
    head = ["POST to stored to answered"]
    for count in connections:
        head += [f"{count} conn., thousand/s", "daruma over it", "p50 / p99, ms"]
    rows = []
    for name in rounds[0]:
        cells = [NAMES[name]]
        for count in connections:
            over = ratios(rounds, rate("sqlite", count), rate(name, count))
            late = [one[name][str(count)] for one in rounds if "p50_us" in one[name][str(count)]]
            cells += [per_s(rate(name, count)(one) for one in rounds), f"{median(over):.2f}",
                      f"{median(one['p50_us'] for one in late) / 1000:.1f} / "
                      f"{median(one['p99_us'] for one in late) / 1000:.1f}" if late else ""]
        rows.append(cells)
    return table_of(head, rows)


def show_delivery(figures):
    rounds, life = figures["delivery"], figures["life"]
    limit = median(one["multi_per_s"] for one in rounds)
    both = 1 / (1 / median(rate("noop", 64)(one) for one in figures["enqueue"]) + 1 / limit)
    rows = [["libcurl alone: the limit", per_s(one["multi_per_s"] for one in rounds), "1.00"],
            ["daruma, SQLite: leased, sent, settled", per_s(one["per_s"] for one in rounds),
             f"{median(one['per_s'] / one['multi_per_s'] for one in rounds):.2f}"]]
    rows += [[NAMES[name] + (": reserve and delete only" if name == "beanstalkd" else ""),
              per_s([value]), f"{value / limit:.2f}"]
             for name, value in sorted(figures["peer_delivery"].items(), key=lambda one: -one[1])]
    lives = [["both limits, one after the other", per_s([both]), "1.00"],
             ["daruma, SQLite: enqueue, deliver, settle at once",
              per_s(one["lives_per_s"] for one in life),
              f"{median(one['lives_per_s'] for one in life) / both:.2f}"]]
    return (table_of(["deliveries", "thousand/s", "over libcurl alone"], rows) + "\n\n" +
            table_of(["whole lives", "thousand/s", "over both limits"], lives))


def show_lateness(late):
    return table_of(["due until the target has the first byte, ms", "earliest", "p50", "p99",
                     "p99.9", "latest"],
                    [[f"{late['count']:,} tasks, {late['per_s']:,}/s"] +
                     [f"{late[name + '_us'] / 1000:.2f}"
                      for name in ("earliest", "p50", "p99", "p999", "latest")]])


def show_redrive(redrive):
    rows = []
    for name, said in (("without", "no redrive"), ("with", "dead letters sent again meanwhile")):
        parts = [one[name] for one in redrive["rounds"]]
        sent = redrive_rates(redrive) if name == "with" else []
        rows.append([said, with_spread(sent, "{:,.0f}") if sent else ""] +
                    [with_spread([part[key + "_us"] / 1000 for part in parts])
                     for key in ("p50", "p99", "p999")])
    return table_of([f"lateness of {redrive['live_per_s']:,} live tasks a second, ms",
                     "redriven/s", "p50", "p99", "p99.9"], rows)


def show_scale(*scales):
    """A column for each size."""
    sizes = [(one[size], one[f"at_{size}"]) for one in scales for size in ("few", "many")]
    loads = scales[0]["load"]  # the first size was enqueued
    enqueued = [f"{part['cpu_us']:.1f}" for part in (loads[0], loads[-1])]
    imported = ["" if "load" not in one else f"{one['load']['us']:.1f}" for _, one in sizes]

    def restart(one):
        cold = "" if one["cold_s"] is None else f" / {one['cold_s']:.2f}"
        return f"{one['warm_s']:.2f}{cold}"

    def each(name, scale=1e6, form="{:.0f}"):
        return [form.format(one[name] / scale) for _, one in sizes]

    def bytes_each(count, one):
        return f"{one['file_bytes'] / count:.0f}" if "file_bytes" in one else ""

    rows = [["resident when loaded, MB", *each("resident_loaded_bytes")],
            ["resident after a restart, MB", *each("resident_restarted_bytes")],
            ["processor time of an enqueue by batch, µs", *enqueued, "", ""],
            ["time of an import, µs", *imported],
            ["processor time of a whole life, µs", *each("life_cpu_us", 1, "{:.1f}")],
            ["ready after kill -9, s: file in memory / on disk",
             *[restart(one) for _, one in sizes]],
            ["file, bytes each", *[bytes_each(*one) for one in sizes]]]
    return table_of(["waiting, due within a day", *[f"{count:,}" for count, _ in sizes]], rows)


def show_machine(machine):
    versions = machine["versions"]
    return (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, load "
            f"{machine['load_before']} before the run, Linux {machine['kernel']}, "
            f"{machine['file_system']}; daruma {machine['daruma']} {machine['optimization']}, "
            f"libmicrohttpd {versions['libmicrohttpd']}, libcurl {versions['libcurl']}, SQLite "
            f"{versions['sqlite']}; wrk {versions['wrk']}, node {versions['node']}, redis "
            f"{versions['redis']}, PostgreSQL {versions['postgresql']}, beanstalkd "
            f"{versions['beanstalkd']}, BullMQ {versions['bullmq']}, graphile-worker "
            f"{versions['graphile-worker']}, pg-boss {versions['pg-boss']}.")


def show(report):
    figures = report["figures"]
    return "\n\n".join([
        show_machine(report["machine"]),
        verdict_table(report["verdicts"]),
        show_enqueue(figures["enqueue"], report["settings"]["connections"]),
        show_delivery(figures), show_lateness(figures["lateness"]),
        show_redrive(figures["redrive"]), show_scale(figures["scale"], figures["huge"])])
