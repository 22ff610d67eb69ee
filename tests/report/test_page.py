import http.server
import os
import re
import shutil
import socketserver
import subprocess
import threading
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from artifact.bench.check import load_results
from artifact.bench.opening import notes
from artifact.integrity.documents import load_manifest
from artifact.report import facts, tables, words
from artifact.report.base import render_all
from artifact.report.page import PageReport

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"
)

VOID = {"meta", "link", "img", "br", "hr", "input"}


def render(results, **earlier):
    files = {name.replace("_", "."): data for name, data in earlier.items()}
    return PageReport().render(results, files)["report.html"].decode("utf-8")


class Page(HTMLParser):
    """A page as a parser sees it: every tag, and the text of every element with its path."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.cells, self.stack, self.inside = [], [], [], []
        self.feed(text)
        assert self.stack == [], f"not closed: {self.stack}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("th", "td", "li", "p", "dd", "dt", "h1", "title", "caption", "figcaption"):
            self.inside.append(len(self.cells))
            self.cells.append((tag, ""))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1] == tag, f"</{tag}> closes {self.stack[-3:]}"
        self.stack.pop()
        if self.inside and self.cells[self.inside[-1]][0] == tag:
            self.inside.pop()

    def handle_data(self, data):
        if self.inside:
            tag, text = self.cells[self.inside[-1]]
            self.cells[self.inside[-1]] = (tag, text + data)

    def texts(self, *tags):
        return [text.strip() for tag, text in self.cells if tag in tags]

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def test_it_is_well_formed_and_complete(every):
    page = Page(render(every))
    wanted = [*facts.every_table(every), *filter(None, [tables.samples(every)])]
    assert len(page.all("table")) == len(wanted)
    assert page.texts("caption") and set(page.texts("caption")) == {t.title for t in wanted}
    shown = set(page.texts("th", "td"))
    for table in wanted:
        assert {cell.text.strip() for row in table.rows for cell in row} <= shown
        assert table.caption in page.texts("figcaption")


def test_it_is_accessible(complete, whole):
    page = Page(render(complete, tflops_svg=whole["tflops.svg"]))
    assert page.all("html") == [{"lang": "en"}]
    assert page.texts("title") == ["Causal prefill attention, BF16, D=128 – " + complete.run_id]
    assert len(page.all("h1")) == 1 and len(page.all("main")) == 1
    assert all(attrs.get("scope") in ("col", "row") for attrs in page.all("th"))
    (image,) = page.all("img")
    assert "TFLOPS" in image["alt"] and "S=2048" in image["alt"]
    assert int(image["width"]) > int(image["height"]) > 100
    identities = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(identities) == len(set(identities))
    labels = [attrs["aria-labelledby"] for _, attrs in page.tags if "aria-labelledby" in attrs]
    anchors = [a["href"][1:] for a in page.all("a") if a["href"].startswith("#")]
    assert {*labels, *anchors} <= set(identities)


def test_marks_are_banners(interrupted):
    page = Page(render(interrupted))
    assert page.texts("li")[:3] == ["INCOMPLETE", "UNLOCKED", "NOT COMPARABLE"]


def test_a_clean_run_has_no_banner(published):
    assert 'class="marks"' not in render(published)


def test_the_error_is_told_with_its_log_and_what_to_do(interrupted):
    text = render(interrupted)
    page = Page(text)
    said = dict(zip(page.texts("dt"), page.texts("dd"), strict=True))
    assert said["Phase"] == "timing" and said["Backend"] == "cpu-reverse"
    assert said["Found"] == "end of output, exit status -9"
    assert said["Next"].startswith("read logs/cpu-reverse.log")
    assert {"href": "./logs/cpu-reverse.log"} in page.all("a")


def test_every_sample_is_there_folded(complete):
    page = Page(render(complete))
    assert {repr(sample.ms) for sample in complete.samples} <= set(page.texts("td"))
    assert len(page.all("details")) >= 4
    assert all("open" not in attrs for attrs in page.all("details"))


def test_reasons_for_what_is_absent(published):
    shown = Page(render(published)).texts("th", "td")
    for place, reason in published.absent.items():
        assert place in shown and reason in shown


def test_nothing_is_fetched(complete, whole):
    text = render(complete, tflops_svg=whole["tflops.svg"])
    page = Page(text)
    assert not page.all("script") and not page.all("iframe") and not page.all("object")
    for tag, attrs in page.tags:
        for name, value in attrs.items():
            assert not name.startswith("on")
            if name in ("src", "href", "srcset", "data", "action"):
                assert tag == "a" or value.startswith("data:"), (tag, name, value)
                assert not re.match(r"(?i)\s*(https?:|//|javascript:)", value)
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    (policy,) = [a for a in page.all("meta") if "http-equiv" in a]
    assert "default-src 'none'" in policy["content"]


def test_hostile_text_stays_text(hostile):
    reference = Page(render(hostile.model_copy(update={"headings": hostile.headings})))
    assert {tag for tag, _ in reference.tags}.isdisjoint({"script", "img", "iframe", "i", "b"})
    text = render(hostile)
    assert text.count("<style>") == 1 and text.count("</style>") == 1
    assert "\x1b" not in text and "\u202e" not in text and "\u2066" not in text
    page = Page(text)
    title = words.visible(hostile.headings.title)
    assert page.texts("h1") == [title.strip()]
    assert words.visible(hostile.backends[0].title).strip() in page.texts("th", "td")
    for _, attrs in page.tags:
        assert not any(name.startswith("on") for name in attrs)


def test_the_same_results_give_the_same_page(every):
    assert render(every) == render(every)


def test_the_template_ships_with_the_package():
    from importlib.resources import files

    assert (files("artifact.report") / "templates" / "report.html.j2").is_file()


# --- in a browser


class Recorder(http.server.BaseHTTPRequestHandler):
    pages: dict[str, bytes]
    requests: list[tuple[str, str]]

    def do_GET(self):
        type(self).requests.append((self.headers.get("Host", ""), self.path))
        data = type(self).pages.get(self.path)
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(data or b"")

    do_POST = do_HEAD = do_GET

    def log_message(self, *_):
        pass


def chromium(profile, *arguments):
    # Every host name leads to our own server: a request to anywhere would be seen there.
    return subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
         "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--enable-logging=stderr", f"--user-data-dir={profile}", *arguments],
        capture_output=True, timeout=120, check=True,
        env={**os.environ, "HOME": str(profile)},
    )  # fmt: skip


def visit(tmp_path, page):
    """The DOM, the console's lines and the requests of one visit of ``page``."""
    handler = type("Here", (Recorder,), {"pages": {"/run/report.html": page}, "requests": []})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        (tmp_path / "profile").mkdir(exist_ok=True)
        done = chromium(
            tmp_path / "profile",
            f"--host-resolver-rules=MAP * 127.0.0.1:{port}",
            "--virtual-time-budget=2000",
            "--dump-dom",
            "http://artifact.test/run/report.html",
        )
        server.shutdown()
    console = [line for line in done.stderr.decode("utf-8", "replace").splitlines()
               if "CONSOLE" in line]  # fmt: skip
    ours = [path for host, path in handler.requests if "google" not in host]
    return done.stdout.decode("utf-8"), console, ours


@needs_chromium
def test_a_browser_fetches_nothing_and_complains_about_nothing(whole, tmp_path):
    page = whole["report.html"]
    dom, console, requests = visit(tmp_path, page)
    assert "NOT COMPARABLE" in dom
    assert console == []
    assert requests == ["/run/report.html"]


#: Every caveat of the published work's section on timing scope and comparison limits: words
#: that the page of a run has to say of it, in one sentence each.
CAVEATS = [
    ["BF16", "FP32 accumulation", "causal mask"],
    ["older scripts", "FP16"],
    ["Triton", "BHSD", "BSHD", "not timed", "not compared"],
    ["CUDA graphs are not used"],
    ["Compilation, autotuning, preparation of the inputs, checks", "one-time set-up", "not timed"],
    ["allocates", "at each launch", "gaps between launches count"],
    ["warmed-up calls", "not latencies of an application"],
    ["device tensor descriptors", "tl.range(warp_specialize=True)"],
    ["aref", "no longer takes", "no new measurement"],
    ["one masked causal loop", "12 warps", "384 threads", "fallback", "refused"],
    ["clocks of the GPU were not locked"],
    ["one after the other"],
    ["at most 65 C", "no constant temperature"],
    ["FlashAttention-3 before and after"],
    ["At S=4096 the 6 samples of FlashAttention-3 reach from", "scatter most", "no win"],
    ["TFLOPS = 2*B*H*S*S*D / (ms*1e9)", "scalar softmax work", "extra diagonal-tile"],
    ["abs(error) <= 0.05 + 0.1 * abs(reference)"],
    ["every element", "FP32 oracle", "without TF32"],
    ["uniform in [-2, 2]", "[-1, 1]", "seed", "the same bytes"],
    ["not a confidence interval"],
    ["results.json", "every sample"],
    ["every line that a worker wrote"],
]


@needs_chromium
def test_the_page_of_a_gpu_run_says_every_caveat(tmp_path):
    """The committed run, with the notes that the manifest gives to a run of its backends."""
    root = Path(__file__).resolve().parents[2]
    run = load_results(root / "results/20261130T204045Z-h200-bf16")
    plan = SimpleNamespace(
        protocol=run.protocol, workload=run.workload, backends=run.backends, gpu=object(),
        manifest=load_manifest(root),
    )  # fmt: skip
    run = run.model_copy(update={"notes": notes(plan)})
    dom, console, requests = visit(tmp_path, render_all(run)["report.html"])
    assert (console, requests) == ([], ["/run/report.html"])
    assert "data:image/svg+xml;base64," in dom
    shown = [" ".join(text.split()) for _, text in Page(dom).cells]
    for parts in CAVEATS:
        assert any(all(part in text for part in parts) for text in shown), parts
    # Plots, verdicts and facts of the machine, too.
    assert {"Speed relative to FlashAttention-3", "Numerical gates"} <= set(shown)
    assert any("SLOWER" in text for text in shown)
    assert "NVIDIA H200 (GPU, target h200)" in shown


@needs_chromium
def test_without_its_policy_it_would_fetch_nothing_either(spoil, tmp_path):
    hostile = spoil(
        "</td></style></title></script>-->]]><script>fetch('/a')</script><img src=/b onerror=c>"
        "<link rel=stylesheet href=/d>\"'><iframe src=/e></iframe>{{ 7*7 }}"
    )
    page, removed = re.subn(rb"<meta http-equiv[^>]*>", b"", render_all(hostile)["report.html"])
    assert removed == 1
    dom, console, requests = visit(tmp_path, page)
    assert (console, requests) == ([], ["/run/report.html"])
    tags = {tag for tag, _ in Page(dom).tags}
    assert tags.isdisjoint({"script", "iframe"}) and "{{ 7*7 }}" in dom


@needs_chromium
def test_the_recorder_sees_requests_and_complaints(tmp_path):
    page = b'<img src="http://other.test/x.png"><script>console.error("seen")</script>'
    _, console, requests = visit(tmp_path, page)
    assert "/x.png" in requests
    assert any("seen" in line for line in console)


@needs_chromium
@pytest.mark.parametrize("width", [480, 1280])
def test_no_part_of_the_page_runs_out_of_the_window(published, tmp_path, width):
    script = (
        b"<script>document.title = document.documentElement.scrollWidth + ' ' + innerWidth</script>"
        b"</body>"
    )
    page = render_all(published)["report.html"]
    page = re.sub(rb"<meta http-equiv[^>]*>", b"", page).replace(b"</body>", script)
    path = tmp_path / "report.html"
    path.write_bytes(page)
    (tmp_path / "profile").mkdir()
    done = chromium(tmp_path / "profile", f"--window-size={width},900", "--dump-dom", path.as_uri())
    found = re.search(r"<title>(\d+) (\d+)</title>", done.stdout.decode("utf-8"))
    assert found is not None
    assert int(found[1]) <= int(found[2])


@needs_chromium
def test_it_draws(published, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(render_all(published)["report.html"])
    (tmp_path / "profile").mkdir()
    shot = tmp_path / "shot.png"
    chromium(tmp_path / "profile", "--window-size=1000,800", f"--screenshot={shot}", path.as_uri())
    assert Path(shot).read_bytes()[:4] == b"\x89PNG"
    assert shot.stat().st_size > 20_000
