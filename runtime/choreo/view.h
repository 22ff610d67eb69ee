// Tensors on the host side: views that own nothing, and tensors that own host memory. Both are contiguous,
// the last dimension fastest.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <type_traits>

#include "error.h"
#include "types.h"

namespace choreo {

namespace detail {

template <typename I>
std::size_t extent(I value) {
  if constexpr (std::is_signed_v<I>) runtime_check(value >= 0, "an extent is negative");
  return static_cast<std::size_t>(value);
}

}  // namespace detail

// R extents. Any integer types may be mixed in its braces: `{batch, seq, 32, 128}`.
template <std::size_t R>
struct Extents {
  std::array<std::size_t, R> values{};

  Extents() = default;
  Extents(const std::array<std::size_t, R>& all) : values(all) {}
  template <typename... I, typename = std::enable_if_t<sizeof...(I) == R && (std::is_integral_v<I> && ...)>>
  Extents(I... each) : values{detail::extent(each)...} {}
};

// R dimensions of T at an address of the host or of the device; data() is what a kernel gets. operator[] is
// for host memory: it gives the view of one index less, or the element.
template <typename T, std::size_t R>
class spanned_view {
  static_assert(R >= 1, "a view has at least one dimension");

 public:
  using value_type = T;

  spanned_view(T* data, const Extents<R>& extents) : data_(data), shape_(extents.values) {}
  // A view of mutable elements is one of constant elements too.
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  spanned_view(const spanned_view<U, R>& other) : data_(other.data()), shape_(other.shape()) {}

  T* data() const { return data_; }
  const std::array<std::size_t, R>& shape() const { return shape_; }
  static constexpr std::size_t rank() { return R; }
  std::size_t element_count() const {
    std::size_t count = 1;
    for (std::size_t extent : shape_) count *= extent;
    return count;
  }
  std::size_t bytes() const { return element_count() * sizeof(T); }

  decltype(auto) operator[](std::size_t index) const {
    runtime_check(index < shape_[0], "an index is outside of its dimension");
    if constexpr (R == 1) {
      return (data_[index]);
    } else {
      std::array<std::size_t, R - 1> rest;
      std::copy(shape_.begin() + 1, shape_.end(), rest.begin());
      std::size_t stride = 1;
      for (std::size_t extent : rest) stride *= extent;
      return spanned_view<T, R - 1>(data_ + index * stride, Extents<R - 1>(rest));
    }
  }

 private:
  T* data_;
  std::array<std::size_t, R> shape_;
};

// make_spanview<bf16, 4>(pointer, {b, s, h, d}): type and rank are given.
template <typename T, std::size_t R>
spanned_view<T, R> make_spanview(T* data, const Extents<R>& extents) {
  return {data, extents};
}

// make_spanview<4>(pointer, {b, s, h, d}): the type is the pointer's.
template <std::size_t R, typename T>
spanned_view<T, R> make_spanview(T* data, const Extents<R>& extents) {
  return {data, extents};
}

// make_spanview(pointer, {b, s, h, d}): the rank is that of the braces, whose integers are of one type.
template <typename T, typename I, std::size_t R, typename = std::enable_if_t<std::is_integral_v<I>>>
spanned_view<T, R> make_spanview(T* data, const I (&extents)[R]) {
  std::array<std::size_t, R> values;
  for (std::size_t i = 0; i < R; ++i) values[i] = detail::extent(extents[i]);
  return {data, Extents<R>(values)};
}

namespace detail {

// The generator behind fill_random: one sequence a process, the same in every process.
inline std::mt19937_64& random_engine() {
  static std::mt19937_64 engine(42);
  return engine;
}

}  // namespace detail

// R dimensions of T in host memory that it owns; zeros at first. It moves, and is not copied by accident.
template <typename T, std::size_t R>
class spanned_data {
 public:
  using value_type = T;

  explicit spanned_data(const Extents<R>& extents) : view_(nullptr, extents) {
    elements_ = std::make_unique<T[]>(view_.element_count());
    view_ = spanned_view<T, R>(elements_.get(), extents);
    if constexpr (!std::is_arithmetic_v<T>) std::memset(static_cast<void*>(elements_.get()), 0, view_.bytes());
  }

  T* data() { return view_.data(); }
  const T* data() const { return view_.data(); }
  const std::array<std::size_t, R>& shape() const { return view_.shape(); }
  static constexpr std::size_t rank() { return R; }
  std::size_t element_count() const { return view_.element_count(); }
  std::size_t bytes() const { return view_.bytes(); }
  spanned_view<T, R> view() { return view_; }
  spanned_view<const T, R> view() const { return view_; }
  decltype(auto) operator[](std::size_t index) { return view_[index]; }
  decltype(auto) operator[](std::size_t index) const { return spanned_view<const T, R>(view_)[index]; }

  // Uniform values: floating types in [low, high), integers in [low, high].
  template <typename L, typename H>
  void fill_random(L low, H high) {
    auto& engine = detail::random_engine();
    for (std::size_t i = 0; i < element_count(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        const auto first = static_cast<std::int64_t>(low), last = static_cast<std::int64_t>(high);
        runtime_check(first <= last, "fill_random needs low <= high");
        const auto values = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first) + 1;
        const std::uint64_t random = values == 0 ? engine() : engine() % values;
        elements_[i] = static_cast<T>(static_cast<std::uint64_t>(first) + random);
      } else {
        const double unit = static_cast<double>(engine() >> 11) * 0x1p-53;
        const double value = double(low) + unit * (double(high) - double(low));
        if constexpr (std::is_same_v<T, double>) {
          elements_[i] = value;
        } else {
          elements_[i] = from_f32<T>(static_cast<float>(value));
        }
      }
    }
  }

 private:
  spanned_view<T, R> view_;
  std::unique_ptr<T[]> elements_;
};

// make_spandata<bf16>(b, s, h, d): a tensor of the host.
template <typename T, typename... I>
spanned_data<T, sizeof...(I)> make_spandata(I... extents) {
  return spanned_data<T, sizeof...(I)>(Extents<sizeof...(I)>(extents...));
}

}  // namespace choreo
