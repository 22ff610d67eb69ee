"""The host function: shapes, checks, maps, launch."""

from __future__ import annotations

from artifact.choreo.compiler import compile_text

PROGRAM = """
__co__ void f(global bf16 [B, S, H, 128] X, global bf16 [B, S, H, 128] Y, int n, float c) {{
  float scale = 0.5f;
  int twice = n * 2;
  u32 unread = 3u;
  assert(n > 0, "n must be positive");
  parallel{form} {{s, h, b}} by [S / 128, H, B] : block {{
    shared bf16 [128, 128] tile;
    X_head = X.subspan(1, S, 1, 128).at(b, 0, h, 0).sqz();
    Y_head = Y.subspan(1, S, 1, 128).at(b, 0, h, 0).sqz();
    parallel t by [128] : thread {{
      inthreads (t < 32) {{
        load = tma.load.async.swiz<128> X_head.subspan(128, 128).at(s, 0) => tile;
        wait load;
        if (c * scale > 1.0f && twice > 3)
          tma.copy tile => Y_head.subspan(128, 128).at(s, 0);
      }}
    }}
  }}
}}
"""


def emitted(form: str = ".async") -> str:
    cuda = compile_text(PROGRAM.format(form=form), "h.co").cuda
    return cuda[cuda.index("void f(const choreo") :]


def test_dimensions_come_from_the_first_tensor_and_the_others_agree() -> None:
    host = emitted()
    assert "const unsigned S = unsigned(X.shape()[1]);" in host
    assert 'runtime_check(X.shape()[3] == 128, "f: dimension 3 of X is not 128");' in host
    assert 'runtime_check(Y.shape()[1] == S, "f: dimension 1 of Y is not S");' in host
    assert "X.shape()[1] == S" not in host


def test_tiles_must_fill_their_dimension_and_the_message_names_it() -> None:
    host = " ".join(emitted().split())
    assert (
        'runtime_check(S % 128 == 0, "f: dimension 1 of X is not a multiple of 128, '
        'the extent of a tile in it");'
    ) in host
    assert host.count("not a multiple") == 1


def test_an_empty_grid_is_refused() -> None:
    assert 'runtime_check(H > 0, "f: the bound of h is not positive");' in emitted()


def test_maps_are_cached_and_flatten_the_tensor_in_panels() -> None:
    host = " ".join(emitted().split())
    assert "static choreo::CachedTensorMap load_map;" in host
    # Columns of a panel, rows of all batches, panels of all heads.
    assert "{64, std::uint64_t(B) * S, std::uint64_t(H) * 2}" in host
    assert "{std::uint64_t(H) * 256, 128}, {64, 128, 2}, 128)" in host
    assert "load_map.get(load_map_spec)" in host


def test_scalars_are_computed_here_where_somebody_reads_them() -> None:
    host = emitted()
    assert "const int twice = n * 2;" in host
    # A constant is one in the kernel itself, and what nobody reads is left out.
    assert "scale" not in host and "unread" not in host
    assert 'runtime_check(n > 0, "f: n must be positive");' in host


def test_the_launch_passes_what_the_kernel_uses() -> None:
    cuda = compile_text(PROGRAM.format(form=".async"), "h.co").cuda
    assert "constexpr float scale = 0.5f;" in cuda
    head = " ".join(cuda[cuda.index("f_kernel(float") : cuda.index(") {")].split())
    assert head.startswith("f_kernel(float c, int twice, unsigned S, const __grid_constant__")
    launch = " ".join(emitted()[emitted().index("choreo::launch(") :].split())
    # 32768 bytes of the tile, one event, and room to align the buffers.
    assert launch.startswith(
        "choreo::launch(f_kernel, dim3(S / 128, H, B), dim3(128), 33800, nullptr, c, twice, S,"
    )


def test_only_an_asynchronous_launch_is_not_waited_for() -> None:
    wait = "choreo::abend_true(cudaDeviceSynchronize());"
    assert wait in emitted("")
    assert wait not in emitted(".async")


def test_a_bound_of_the_grid_may_be_a_scalar_of_the_host() -> None:
    text = PROGRAM.replace("u32 unread = 3u;", "u32 tiles = S / 128;").replace(
        "by [S / 128, H, B]", "by [tiles, H, B]"
    )
    cuda = compile_text(text.format(form=".async"), "h.co").cuda
    host = cuda[cuda.index("void f(const choreo") :]
    declared = host.index("const unsigned tiles = S / 128;")
    assert declared < host.index("runtime_check(tiles > 0,") < host.index("dim3(tiles, H, B)")
