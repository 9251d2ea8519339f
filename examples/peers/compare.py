"""Times the rows of the benchmark in Gradloom, JAX and PyTorch, in turn, and prints the table of docs/speed.md.

    cargo build --release --bin bench
    compare.py [--rows W13,W19_second] [--threads 1,2] [--rounds 3] [--min-time 0.1] [--forms first|all]
               [--peers jax,torch] [--level avx2] [--raw FILE] [--only-report]

In each round one framework after the other times all rows, first with one thread and then with two. Each workload of
Gradloom has a process of its own, and all rows of a peer share one. With one thread, a process stays on one CPU. A
number in the table is the median of the rounds.
`--rows` takes names or prefixes, as `rows.py` does. `--forms all` also times the other forms of a row in the peers,
among them what `torch.compile` makes, and the table has the fastest. That takes long; `first` is the usual form.

`--raw` names a file to which each measurement is added as a line `round threads framework row milliseconds`;
`--only-report` prints the table of such a file, which may come from several runs.

The peers keep their memory between calls (`GLIBC_TUNABLES`), as Gradloom does: without it, a result of some MiB costs
more for the pages that the system has to clear than for the work.

`--level avx2` limits the loops of Gradloom, XLA and PyTorch to AVX2. It does not limit the products of XLA's library.
"""

import argparse
import collections
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(FOLDER, "../../target/release/bench")
NAMES = {"gradloom": "Gradloom", "jax": "JAX", "torch": "PyTorch"}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--min-time", type=float, default=0.1)
    parser.add_argument("--forms", choices=["first", "all"], default="first")
    parser.add_argument("--peers", default="jax,torch")
    parser.add_argument("--level", choices=["avx2"])
    parser.add_argument("--bench", default=BENCH, help="the program `bench`")
    parser.add_argument("--raw", help="file of all measurements; a temporary one by default")
    parser.add_argument("--only-report", action="store_true")
    return parser.parse_args()


def environment(given):
    found = dict(os.environ)
    if given.level:
        found["GRADLOOM_LEVEL"] = given.level
        found["XLA_FLAGS"] = "--xla_cpu_max_isa=AVX2"
        found["ATEN_CPU_CAPABILITY"] = "avx2"
    return found


def output(command, given, **variables):
    """The lines that a command printed. A command that fails ends the whole run."""
    ran = subprocess.run(command, env=environment(given) | variables, stdout=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ran.returncode}")
    return ran.stdout.splitlines()


def milliseconds(row):
    """The time of a call, of a line of JSON that `bench` printed."""
    value, name = row["value"], row["workload"]
    match row["unit"]:
        case "ms":
            return value
        case "us":
            return value / 1e3
        case "ns":  # of each of the 1000 operations of W7
            return value * 1000 / 1e6
        case "GFLOP/s":  # of the product of two matrices of n x n
            return 2 * int(name.split("_")[1]) ** 3 / value / 1e6
    sys.exit(f"{name} has the unit {row['unit']}, which this script does not know")


def gradloom(given, threads, wanted):
    """Times the workloads with wanted rows, each in a process of its own."""
    workloads = [line.split()[0] for line in output([given.bench, "--list"], given)]
    pin = ["taskset", "-c", str(max(os.sched_getaffinity(0)))] if threads == 1 else []
    # The name of a row begins with that of its workload. W1 is not the workload of W11.
    needed = {max(filter(row.startswith, workloads), key=len) for row in wanted}
    for workload in filter(needed.__contains__, workloads):
        flags = ["--alone", "--threads", str(threads), "--min-time", str(given.min_time)]
        for line in output([*pin, given.bench, "--workloads", workload, *flags], given):
            row = json.loads(line)
            if row["workload"] in wanted:
                yield row["workload"], milliseconds(row)


def rows_script(peer):
    return [sys.executable, os.path.join(FOLDER, "rows.py"), "--peer", peer]


def peer(name, given, threads, wanted):
    keep = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296"
    flags = ["--rows", ",".join(wanted), "--threads", str(threads), "--min-time", str(given.min_time)]
    first = ["--first"] if given.forms == "first" else []
    for line in output([*rows_script(name), *flags, *first], given, GLIBC_TUNABLES=keep):
        if not line.startswith("#"):
            row, _, value = line.split(",")
            yield row, float(value)


def measure(given, raw):
    peers = given.peers.split(",")
    rows = ["--rows", given.rows] if given.rows else []
    wanted = output([*rows_script(peers[0]), *rows, "--list"], given)
    for number in range(1, given.rounds + 1):
        for threads in map(int, given.threads.split(",")):
            for who in ["gradloom", *peers]:
                print(f"round {number}, {threads} threads, {who}", file=sys.stderr)
                run = gradloom(given, threads, wanted) if who == "gradloom" else peer(who, given, threads, wanted)
                for row, value in run:
                    raw.write(f"{number} {threads} {who} {row} {value:.6g}\n")
                    raw.flush()


def medians(lines):
    """The median of the rounds by row, and by number of threads and framework."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in lines:
        _, threads, who, row, value = line.split()
        found[row][int(threads), who].append(float(value))
    return {row: {key: statistics.median(all) for key, all in cells.items()} for row, cells in found.items()}


def three_digits(x):
    digits = max(2 - math.floor(math.log10(x)), 0)
    return f"{x:.{digits}f}"


def report(table):
    threads = sorted({key[0] for cells in table.values() for key in cells})
    peers = [who for who in NAMES if who != "gradloom" and any((threads[0], who) in c for c in table.values())]
    names = [*(NAMES[who] for who in ["gradloom", *peers]), "ratio"]
    header = [f"{name}, {n}" for n in threads for name in names]
    print(f"| row | {' | '.join(header)} |")
    print("|---|" + "---:|" * len(header))
    found = {n: {} for n in threads}
    for row, cells in table.items():
        line = []
        for n in threads:
            ours, theirs = cells.get((n, "gradloom")), [cells.get((n, who)) for who in peers]
            line += [three_digits(x) if x else "" for x in [ours, *theirs]]
            known = [x for x in theirs if x]
            if ours and known:
                found[n][row] = min(known) / ours
            line.append(f"{found[n][row]:.2f}" if row in found[n] else "")
        print(f"| {row} | {' | '.join(line)} |")
    for n in threads:
        all = found[n].values()
        if not all:
            continue
        lead = sum(ratio >= 1 for ratio in all)
        print(f"\n{n} threads: geometric mean {statistics.geometric_mean(all):.2f}, {lead} of {len(all)} at 1 or above; below:")
        print(", ".join(f"{row} {ratio:.2f}" for row, ratio in sorted(found[n].items(), key=lambda x: x[1]) if ratio < 1))
    if threads == [1, 2]:
        print("\nTwo threads relative to one:")
        both = {row: c[1, "gradloom"] / c[2, "gradloom"] for row, c in table.items() if {(1, "gradloom"), (2, "gradloom")} <= set(c)}
        for low, high in [(1.85, 9), (1.6, 1.85), (1.2, 1.6), (1.05, 1.2), (0.95, 1.05), (0, 0.95)]:
            rows = [row for row, ratio in both.items() if low <= ratio < high]
            print(f"{low} to {high} ({len(rows)}): {', '.join(rows)}")


def main():
    given = options()
    if not given.only_report:
        with open(given.raw, "a") if given.raw else tempfile.NamedTemporaryFile("w", delete=False) as raw:
            given.raw = raw.name
            measure(given, raw)
    with open(given.raw) as raw:
        report(medians(raw))


main()
