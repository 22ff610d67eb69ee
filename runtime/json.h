// A small strict JSON reader and writer, for the worker protocol: one document a string.
//
// Strict: UTF-8 without a BOM, nothing after the document, no key twice in an object, no control character in
// a string, nesting of at most 32. Integers of 64 bits keep every digit; a number beyond them, or with a
// fraction or exponent, is a double. Written numbers read back as the same double; what is not finite is null.
#pragma once

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace json {

// Text that is not JSON; says what and at which byte.
class ParseError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

// Bytes of the UTF-8 sequence at `at`: the shortest form, no surrogate, at most U+10FFFF; 0 where there is none.
inline std::size_t utf8_length(const std::string& text, std::size_t at) {
  const auto byte = [&text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  unsigned code = lead & (length == 4 ? 0x07u : length == 3 ? 0x0fu : 0x1fu);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
    code = (code << 6) | (byte(at + i) & 0x3f);
  }
  const unsigned least = length == 4 ? 0x10000u : length == 3 ? 0x800u : 0x80u;
  return code >= least && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000) ? length : 0;
}

}  // namespace detail

class Value {
 public:
  using Array = std::vector<Value>;
  using Member = std::pair<std::string, Value>;
  using Object = std::vector<Member>;  // in the order of the text

  Value() = default;
  Value(std::nullptr_t) {}
  Value(bool value) : data_(value) {}
  Value(double value) { *this = std::isfinite(value) ? make(value) : Value(); }
  Value(int value) : data_(std::int64_t(value)) {}
  Value(std::int64_t value) : data_(value) {}
  Value(std::uint64_t value) {
    if (value <= std::uint64_t(std::numeric_limits<std::int64_t>::max())) {
      data_ = std::int64_t(value);
    } else {
      data_ = value;
    }
  }
  Value(const char* value) : data_(std::string(value)) {}
  Value(std::string value) : data_(std::move(value)) {}
  Value(Array value) : data_(std::move(value)) {}
  Value(Object value) : data_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const std::string* text() const { return std::get_if<std::string>(&data_); }
  const Array* array() const { return std::get_if<Array>(&data_); }
  const Object* object() const { return std::get_if<Object>(&data_); }

  // Whether it is an integer from `low` to `high`, which then stands in `out`.
  bool integer(std::int64_t low, std::int64_t high, std::int64_t& out) const {
    const auto* value = std::get_if<std::int64_t>(&data_);
    if (value == nullptr || *value < low || *value > high) return false;
    out = *value;
    return true;
  }
  // Whether it is an integer from 0 to 2^64 - 1.
  bool natural(std::uint64_t& out) const {
    if (const auto* large = std::get_if<std::uint64_t>(&data_)) {
      out = *large;
      return true;
    }
    const auto* value = std::get_if<std::int64_t>(&data_);
    if (value == nullptr || *value < 0) return false;
    out = std::uint64_t(*value);
    return true;
  }
  // Whether it is a number, as a double.
  bool number(double& out) const {
    if (const auto* real = std::get_if<double>(&data_)) out = *real;
    else if (const auto* small = std::get_if<std::int64_t>(&data_)) out = double(*small);
    else if (const auto* large = std::get_if<std::uint64_t>(&data_)) out = double(*large);
    else return false;
    return true;
  }
  // The member of an object, or null where there is none.
  const Value* find(const std::string& key) const {
    if (const Object* members = object()) {
      for (const Member& member : *members) {
        if (member.first == key) return &member.second;
      }
    }
    return nullptr;
  }

  // One line of JSON.
  std::string dump() const {
    std::string out;
    write(out);
    return out;
  }

 private:
  static Value make(double value) {
    Value result;
    result.data_ = value;
    return result;
  }

  // What is no UTF-8 becomes U+FFFD: a line is valid whatever its texts quote.
  static void write_text(std::string& out, const std::string& text) {
    out += '"';
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = detail::utf8_length(text, at);
      const char c = text[at];
      if (length == 0) {
        out += "\\ufffd";
      } else if (c == '"' || c == '\\') {
        out += {'\\', c};
      } else if (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned char>(c));
        out += escape;
      } else {
        out.append(text, at, length);
      }
      at += length == 0 ? 1 : length;
    }
    out += '"';
  }

  void write(std::string& out) const {
    if (is_null()) {
      out += "null";
    } else if (const bool* flag = boolean()) {
      out += *flag ? "true" : "false";
    } else if (const auto* small = std::get_if<std::int64_t>(&data_)) {
      out += std::to_string(*small);
    } else if (const auto* large = std::get_if<std::uint64_t>(&data_)) {
      out += std::to_string(*large);
    } else if (const auto* real = std::get_if<double>(&data_)) {
      char digits[32];
      std::snprintf(digits, sizeof digits, "%.17g", *real);
      out += digits;
      if (out.find_first_of(".e", out.size() - std::strlen(digits)) == std::string::npos) out += ".0";
    } else if (const std::string* string = text()) {
      write_text(out, *string);
    } else if (const Array* items = array()) {
      out += '[';
      for (std::size_t i = 0; i < items->size(); ++i) {
        if (i != 0) out += ',';
        (*items)[i].write(out);
      }
      out += ']';
    } else {
      const Object& members = *object();
      out += '{';
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (i != 0) out += ',';
        write_text(out, members[i].first);
        out += ':';
        members[i].second.write(out);
      }
      out += '}';
    }
  }

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> data_;
};

namespace detail {

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  Value document() {
    Value value = read(0);
    space();
    if (at_ != text_.size()) fail("something follows the document");
    return value;
  }

 private:
  static constexpr int kMaxDepth = 32;

  [[noreturn]] void fail(const std::string& what) const { throw ParseError(what + " at byte " + std::to_string(at_)); }
  // The next byte, or NUL at the end: no token begins with NUL.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  void word(const char* expected) {
    for (const char* c = expected; *c != '\0'; ++c) {
      if (!take(*c)) fail("no JSON value");
    }
  }

  Value read(int depth) {
    if (depth > kMaxDepth) fail("nesting is too deep");
    space();
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return Value(string());
      case 't': word("true"); return Value(true);
      case 'f': word("false"); return Value(false);
      case 'n': word("null"); return Value();
      default: return number();
    }
  }

  Value object(int depth) {
    Value::Object members;
    ++at_;
    space();
    if (take('}')) return Value(std::move(members));
    do {
      space();
      if (peek() != '"') fail("a key is expected");
      std::string key = string();
      for (const Value::Member& member : members) {
        if (member.first == key) fail("the key " + key + " stands twice");
      }
      space();
      if (!take(':')) fail("a colon is expected");
      Value value = read(depth + 1);
      members.emplace_back(std::move(key), std::move(value));
      space();
    } while (take(','));
    if (!take('}')) fail("a comma or the end of the object is expected");
    return Value(std::move(members));
  }

  Value array(int depth) {
    Value::Array items;
    ++at_;
    space();
    if (take(']')) return Value(std::move(items));
    do {
      items.push_back(read(depth + 1));
      space();
    } while (take(','));
    if (!take(']')) fail("a comma or the end of the array is expected");
    return Value(std::move(items));
  }

  static bool digit(char c) { return c >= '0' && c <= '9'; }
  void digits() {
    if (!digit(peek())) fail("no JSON value");
    while (digit(peek())) ++at_;
  }

  Value number() {
    const std::size_t begin = at_;
    const bool negative = take('-');
    if (peek() == '0') ++at_;
    else digits();
    bool integer = true;
    if (take('.')) {
      integer = false;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      integer = false;
      ++at_;
      if (!take('+')) take('-');
      digits();
    }
    const std::string token = text_.substr(begin, at_ - begin);
    if (integer) {
      errno = 0;
      if (negative) {
        const long long value = std::strtoll(token.c_str(), nullptr, 10);
        if (errno == 0) return Value(std::int64_t(value));
      } else {
        const unsigned long long value = std::strtoull(token.c_str(), nullptr, 10);
        if (errno == 0) return Value(std::uint64_t(value));
      }
    }
    const double value = std::strtod(token.c_str(), nullptr);
    if (!std::isfinite(value)) fail("the number " + token + " is out of range");
    return Value(value);
  }

  unsigned hex4() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = peek();
      unsigned nibble = 0;
      if (digit(c)) nibble = unsigned(c - '0');
      else if (c >= 'a' && c <= 'f') nibble = unsigned(c - 'a' + 10);
      else if (c >= 'A' && c <= 'F') nibble = unsigned(c - 'A' + 10);
      else fail("four hexadecimal digits are expected");
      ++at_;
      code = 16 * code + nibble;
    }
    return code;
  }

  static void append(std::string& out, unsigned code) {
    if (code < 0x80) {
      out += char(code);
    } else if (code < 0x800) {
      out += {char(0xc0 | (code >> 6)), char(0x80 | (code & 0x3f))};
    } else if (code < 0x10000) {
      out += {char(0xe0 | (code >> 12)), char(0x80 | ((code >> 6) & 0x3f)), char(0x80 | (code & 0x3f))};
    } else {
      out += {char(0xf0 | (code >> 18)), char(0x80 | ((code >> 12) & 0x3f)), char(0x80 | ((code >> 6) & 0x3f)),
              char(0x80 | (code & 0x3f))};
    }
  }

  void escape(std::string& out) {
    const char c = peek();
    ++at_;
    switch (c) {
      case '"':
      case '\\':
      case '/': out += c; return;
      case 'b': out += '\b'; return;
      case 'f': out += '\f'; return;
      case 'n': out += '\n'; return;
      case 'r': out += '\r'; return;
      case 't': out += '\t'; return;
      case 'u': break;
      default: fail("no such escape");
    }
    unsigned code = hex4();
    if (code >= 0xd800 && code < 0xdc00) {
      if (!take('\\') || !take('u')) fail("half of a surrogate pair");
      const unsigned low = hex4();
      if (low < 0xdc00 || low >= 0xe000) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      fail("half of a surrogate pair");
    }
    append(out, code);
  }

  void sequence(std::string& out) {
    const std::size_t length = utf8_length(text_, at_);
    if (length == 0) fail("no UTF-8");
    out.append(text_, at_, length);
    at_ += length;
  }

  std::string string() {
    std::string out;
    ++at_;
    while (true) {
      if (at_ >= text_.size()) fail("the string does not end");
      const unsigned char c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return out;
      }
      if (c < 0x20) fail("a control character in a string");
      if (c == '\\') {
        ++at_;
        escape(out);
      } else if (c < 0x80) {
        out += char(c);
        ++at_;
      } else {
        sequence(out);
      }
    }
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace detail

// Throws ParseError where `text` is not exactly one JSON document.
inline Value parse(const std::string& text) { return detail::Reader(text).document(); }

}  // namespace json
