"""The worker protocol, spoken with a real process."""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import types

import pytest

from artifact.bench.messages import answer_adapter

GATES = {"atol": 0.05, "rtol": 0.1, "band_axis": "S", "band_rows": 1024}
SHAPE = {"B": 1, "H": 1, "S": 256, "D": 32}


class Talk:
    """A worker process; every answer is checked against the protocol's models."""

    def __init__(self, worker_file, *args, flags=("-I",), **more):
        self.process = subprocess.Popen(
            [sys.executable, *flags, str(worker_file), *args, "--backend", "under-test"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )
        self.parse = answer_adapter().validate_json
        self.id = 0

    def line(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        self.parse(line)
        answer = json.loads(line)
        assert answer["backend"] == "under-test"
        return answer

    def ask(self, op, **fields):
        self.id += 1
        answer = self.line(json.dumps({"op": op, "id": self.id, **fields}))
        assert answer["id"] == self.id
        return answer

    def end(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


class InProcess(Talk):
    """The same without a process, for the many requests of which each needs a fresh worker."""

    def __init__(self, cpu):
        self.cpu = cpu
        self.worker = cpu.Worker("under-test", cpu.direct, (128, 128))
        self.parse = answer_adapter().validate_json
        self.id = 0

    def line(self, text):
        line = text.encode("utf-8", "surrogateescape")
        answer = json.dumps(self.cpu.respond(self.worker, line), allow_nan=False)
        self.parse(answer)
        return json.loads(answer)


@pytest.fixture
def direct_talk(cpu):
    return InProcess(cpu)


@pytest.fixture
def talk(worker_file):
    started = []

    def start(*args, **more):
        started.append(Talk(worker_file, *args, **more))
        return started[-1]

    yield start
    for one in started:
        one.end()


def test_a_whole_conversation(talk, worker_file):
    worker = talk("--variant", "online", "--traversal", "reverse", "--tile", "64")
    hello = worker.ask("hello", protocol=1)
    assert hello["protocol"] == 1 and hello["clock"] == "host-monotonic"
    assert hello["python"] == sys.version.split()[0] and "numpy" in hello["versions"]
    prepared = worker.ask("prepare", shape=SHAPE, seed=42, parameters={})
    assert sorted(prepared["inputs"]) == ["k", "q", "v"]
    assert all(value >= 0 for value in prepared["setup_ms"].values())
    controls = [{"name": "zeros", "position": None}, {"name": "dropped-tile", "position": "last"}]
    checked = worker.ask("check", gates=GATES, controls=controls)
    assert checked["figures"]["elements"] == 256 * 32
    assert checked["figures"]["outside_tolerance"] == 0
    assert [(c["name"], c["position"]) for c in checked["controls"]] == [
        ("zeros", None),
        ("dropped-tile", "last"),
    ]
    assert checked["controls"][0]["figures"]["max_abs"] > 0.5
    timed = worker.ask("time", warmup=1, repeat=2)
    assert timed["ms"] > 0 and (timed["warmup"], timed["repeat"]) == (1, 2)
    facts = worker.ask("witness")["facts"]
    assert facts["implementation"] == "numpy online softmax, reverse, tile 64"
    assert facts["module_sha256"] == hashlib.sha256(worker_file.read_bytes()).hexdigest()
    assert facts["threads"] >= 1 and facts["blas"] and facts["numpy"]
    again = worker.ask("check", gates=GATES)
    assert again["figures"] == checked["figures"] and again["controls"] == []
    assert worker.ask("quit")["op"] == "quit"
    assert worker.process.wait(60) == 0
    assert worker.process.stdout.read() == ""


def test_nothing_but_answers_reaches_standard_output(talk, worker_file, tmp_path):
    """What a library prints from C or Python goes to standard error."""
    noisy = tmp_path / "noisy.py"
    noisy.write_text(
        "import os, runpy, sys\n"
        "import json\n"
        "plain = json.loads\n"
        "def loads(*args):\n"
        "    print('a library says hello'); sys.stdout.flush(); os.write(1, b'so does C\\n')\n"
        "    return plain(*args)\n"
        "json.loads = loads\n"
        f"sys.argv[0] = {str(worker_file)!r}\n"
        f"runpy.run_path({str(worker_file)!r}, run_name='__main__')\n"
    )
    worker = Talk(noisy)
    try:
        assert worker.ask("hello", protocol=1)["op"] == "hello"
        assert worker.ask("quit")["op"] == "quit"
        out, err = worker.process.communicate(timeout=60)
        assert out == "" and "a library says hello" in err and "so does C" in err
    finally:
        worker.end()


NO_REQUESTS = [
    ("garbage", "not JSON"),
    ("", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ("\udcff\udcfe", "not JSON"),
    ("[1, 2]", "no JSON object"),
    ('{"op": "hello"}', "no id"),
    ('{"op": "hello", "id": "1"}', "no id"),
    ('{"op": "hello", "id": true}', "no id"),
]


def test_lines_that_are_no_requests(talk):
    worker = talk(encoding="utf-8", errors="surrogateescape")
    for line, message in NO_REQUESTS:
        answer = worker.line(line)
        assert (answer["op"], answer["kind"], answer["id"]) == ("error", "failed", -1)
        assert message in answer["message"]
        assert worker.ask("hello", protocol=1)["op"] == "hello"


@pytest.mark.parametrize(
    ("request_", "kind", "message"),
    [
        ({"op": "dance"}, "failed", "does not exist"),
        ({"op": None}, "failed", "does not exist"),
        ({"op": ["hello"]}, "failed", "does not exist"),
        ({"op": "hello", "protocol": 2}, "wrong_version", "another version"),
        ({"op": "hello"}, "wrong_version", "another version"),
        ({"op": "check", "gates": GATES}, "failed", "no shape is prepared"),
        ({"op": "time", "warmup": 1, "repeat": 1}, "failed", "no shape is prepared"),
        ({"op": "witness"}, "failed", "nothing was launched"),
        ({"op": "prepare", "shape": SHAPE}, "failed", "seed"),
        ({"op": "prepare", "shape": SHAPE, "seed": -1}, "failed", "seed"),
        ({"op": "prepare", "shape": SHAPE, "seed": 2**64}, "failed", "seed"),
        ({"op": "prepare", "shape": SHAPE, "seed": 4.0}, "failed", "seed"),
        ({"op": "prepare", "shape": None, "seed": 1}, "unsupported_shape", "lacks"),
        ({"op": "prepare", "shape": {"N": 4}, "seed": 1}, "unsupported_shape", "lacks"),
        ({"op": "prepare", "shape": {**SHAPE, "S": 200}, "seed": 1}, "unsupported_shape", "tails"),
        ({"op": "prepare", "shape": {**SHAPE, "H_kv": 1}, "seed": 1}, "unsupported_shape", "GQA"),
        (
            {"op": "prepare", "shape": {**SHAPE, "S_kv": 9}, "seed": 1},
            "unsupported_shape",
            "unequal",
        ),
        ({"op": "prepare", "shape": {**SHAPE, "S": 0}, "seed": 1}, "unsupported_shape", "positive"),
        (
            {"op": "prepare", "shape": {**SHAPE, "B": 1.0}, "seed": 1},
            "unsupported_shape",
            "positive",
        ),
        (
            {"op": "prepare", "shape": {**SHAPE, "B": True}, "seed": 1},
            "unsupported_shape",
            "positive",
        ),
    ],
)
def test_a_request_that_cannot_be_answered(direct_talk, request_, kind, message):
    worker = direct_talk
    answer = worker.ask(**request_)
    assert (answer["op"], answer["kind"]) == ("error", kind)
    assert message in answer["message"]
    assert worker.ask("prepare", shape=SHAPE, seed=1)["op"] == "prepare"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "gates"),
        ({"gates": []}, "gates"),
        ({"gates": {**GATES, "atol": None}}, "atol"),
        ({"gates": {**GATES, "atol": -0.1}}, "atol"),
        ({"gates": {**GATES, "rtol": True}}, "rtol"),
        ({"gates": {**GATES, "band_axis": "D"}}, "bands run along no axis"),
        ({"gates": {**GATES, "band_axis": ["S"]}}, "bands run along no axis"),
        ({"gates": {**GATES, "band_rows": 0}}, "band_rows"),
        ({"gates": GATES, "controls": {"name": "zeros"}}, "controls"),
        ({"gates": GATES, "controls": ["zeros"]}, "controls"),
        ({"gates": GATES, "controls": [{"name": "unknown"}]}, "control does not exist"),
        ({"gates": GATES, "controls": [{}]}, "control does not exist"),
    ],
)
def test_a_check_that_is_not_as_the_protocol_says(direct_talk, fields, message):
    worker = direct_talk
    worker.ask("prepare", shape=SHAPE, seed=1)
    answer = worker.ask("check", **fields)
    assert (answer["op"], answer["kind"]) == ("error", "failed")
    assert message in answer["message"]
    assert worker.ask("check", gates=GATES)["op"] == "check"


@pytest.mark.parametrize(
    "fields",
    [{}, {"warmup": -1, "repeat": 1}, {"warmup": 0, "repeat": 0}, {"warmup": 0, "repeat": "3"}],
)
def test_a_time_that_is_not_as_the_protocol_says(direct_talk, fields):
    worker = direct_talk
    worker.ask("prepare", shape=SHAPE, seed=1)
    answer = worker.ask("time", **fields)
    assert (answer["op"], answer["kind"]) == ("error", "failed")


def test_a_prepare_that_fails_leaves_no_shape_behind(direct_talk):
    worker = direct_talk
    worker.ask("prepare", shape=SHAPE, seed=1)
    worker.ask("time", warmup=0, repeat=1)
    worker.ask("prepare", shape={**SHAPE, "S": 100}, seed=1)
    assert "no shape" in worker.ask("time", warmup=0, repeat=1)["message"]
    assert worker.ask("witness")["op"] == "error"


def test_too_large_a_shape_is_out_of_memory_and_the_worker_lives_on(talk):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    worker = talk(preexec_fn=limit)
    huge = {"B": 64, "H": 32, "S": 1 << 20, "D": 128}
    answer = worker.ask("prepare", shape=huge, seed=1)
    assert (answer["op"], answer["kind"]) == ("error", "out_of_memory")
    assert worker.ask("prepare", shape=SHAPE, seed=1)["op"] == "prepare"


def test_without_numpy_the_worker_says_so(talk):
    worker = talk(flags=("-I", "-S"))
    answer = worker.ask("hello", protocol=1)
    assert (answer["op"], answer["kind"]) == ("error", "missing_module")
    assert "numpy" in answer["message"]
    assert worker.ask("quit")["op"] == "quit"
    assert worker.process.wait(60) == 0


def test_the_end_of_the_input_ends_the_worker(talk):
    worker = talk()
    worker.process.stdin.close()
    assert worker.process.wait(60) == 0


def test_an_old_numpy_is_refused(cpu, monkeypatch):
    monkeypatch.setattr(cpu.np, "__version__", "1.26.4")
    answer = cpu.respond(cpu.Worker("x", cpu.direct, (128,)), b'{"op":"hello","id":1,"protocol":1}')
    assert (answer["kind"], answer["found"]) == ("wrong_version", "1.26.4")


def test_an_unforeseen_error_is_an_answer(cpu, monkeypatch, capsys):
    def fail(*_):
        raise ZeroDivisionError("one by zero")

    monkeypatch.setattr(cpu, "Inputs", fail)
    request = {"op": "prepare", "id": 3, "shape": SHAPE, "seed": 1}
    answer = cpu.respond(cpu.Worker("x", cpu.direct, (128,)), json.dumps(request).encode())
    assert answer["kind"] == "failed" and answer["message"] == "ZeroDivisionError: one by zero"
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "--backend is needed"),
        (("--backend", "x", "--variant", "best"), "invalid choice"),
        (("--backend", "x", "--tile", "0"), "at least one row"),
        (("--backend", "x", "--tile", "12", "--deferred-row-sum"), "multiple of 8"),
    ],
)
def test_arguments_that_make_no_worker(worker_file, args, message):
    done = subprocess.run(
        [sys.executable, "-I", worker_file, *args], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""


def test_the_self_check_prints_its_table(worker_file):
    done = subprocess.run(
        [sys.executable, "-I", worker_file, "--self-check"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = done.stdout.splitlines()[2:]
    assert len(rows) == 18 and "deferred row sum" in done.stdout
    assert all(float(row.split()[-2]) < 1.2 for row in rows)


def test_a_sample_is_the_mean_after_the_warm_up(cpu, monkeypatch):
    """Warm-up launches run before the clock is read, and the window is divided by repeat."""
    worker = cpu.Worker("x", cpu.direct, (128,))
    worker.prepare({"shape": SHAPE, "seed": 1})
    now, launches = 0, 0

    def launch(*_, **__):
        nonlocal now, launches
        launches += 1
        now += 50_000_000 if launches <= 4 else 3_000_000

    monkeypatch.setattr(cpu, "launch", launch)
    monkeypatch.setattr(cpu, "time", types.SimpleNamespace(perf_counter_ns=lambda: now))
    assert worker.time({"warmup": 4, "repeat": 5})["ms"] == 3.0
    assert launches == 9
