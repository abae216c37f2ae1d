// Profiles from files: a flat mapping of scalars, the subset of YAML that a table of figures needs. A YAML library
// would put its symbols into every framework's process, where others of the kind may be loaded already.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "stub/backend/profiles.h"
#include "stub/backend/quoted.h"

namespace unihal::stub {
namespace {

enum class ValueKind { kText, kBytes, kWhole, kDecimal };

// A key of the file: where its value goes.
struct Key {
  const char* name;
  ValueKind kind;
  bool required;
  double least;
  double most;
  size_t offset;  // in DeviceProfile
  size_t size;    // of the member
};

#define MEMBER(name) offsetof(DeviceProfile, name), sizeof(DeviceProfile::name)

constexpr double kMaxBytes = static_cast<double>(uint64_t{1} << 47);  // what the core can allocate

constexpr Key kKeys[] = {
    {"name", ValueKind::kText, true, 0, 0, MEMBER(card)},
    {"vendor", ValueKind::kText, false, 0, 0, MEMBER(vendor)},
    {"memory", ValueKind::kBytes, true, 1 << 20, kMaxBytes, MEMBER(memory)},
    {"reserve", ValueKind::kBytes, false, 0, kMaxBytes, MEMBER(reserve)},
    {"max_allocation", ValueKind::kBytes, false, 1, kMaxBytes, MEMBER(max_allocation)},
    {"local_memory", ValueKind::kBytes, false, 0, kMaxBytes, MEMBER(local_memory)},
    {"compute_units", ValueKind::kWhole, true, 0, 1e6, MEMBER(compute_units)},
    {"wavefront_size", ValueKind::kWhole, true, 1, 1024, MEMBER(wavefront_size)},
    {"clock_megahertz", ValueKind::kWhole, false, 0, 1e6, MEMBER(clock_megahertz)},
    {"peak_gigaflops_float32", ValueKind::kDecimal, true, 0, 1e12, MEMBER(peak_gigaflops_float32)},
    {"peak_gigabytes_per_second", ValueKind::kDecimal, true, 0, 1e9, MEMBER(peak_gigabytes_per_second)},
    {"launch_nanoseconds", ValueKind::kWhole, true, 0, 1e9, MEMBER(launch_nanoseconds)},
};
#undef MEMBER
constexpr size_t kKeyCount = sizeof kKeys / sizeof kKeys[0];

struct Unit {
  const char* name;
  int shift;
};
constexpr Unit kUnits[] = {{"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string number_text(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  return text.back() == '.' ? text.substr(0, text.size() - 1) : text;
}

// The digits at the beginning of a text as a number; *rest gets what follows. No sign, exponent or locale.
bool parse_digits(const std::string& text, double* number, std::string* rest) {
  size_t i = 0;
  double value = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) value = value * 10 + (text[i] - '0');
  if (i == 0 || i > 18) return false;
  if (i + 1 < text.size() && text[i] == '.' && text[i + 1] >= '0' && text[i + 1] <= '9') {
    double digit = 0.1;
    for (++i; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i, digit /= 10) value += (text[i] - '0') * digit;
  }
  *number = value;
  *rest = trimmed(text.substr(i));
  return true;
}

bool parse_bytes(const std::string& text, double* bytes) {
  std::string unit;
  if (!parse_digits(text, bytes, &unit)) return false;
  for (const Unit& row : kUnits) {
    if (unit != row.name) continue;
    *bytes *= static_cast<double>(uint64_t{1} << row.shift);
    return *bytes == std::floor(*bytes);
  }
  return false;
}

class ProfileParser {
 public:
  ProfileParser(const std::string& file, DeviceProfile* profile, std::string* complaint)
      : file_(file), profile_(profile), complaint_(complaint) {}

  bool parse(const std::string& text) {
    *profile_ = {};
    profile_->reserve = kUsualReserve;
    profile_->local_memory = kUsualLocalMemory;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      ++line_;
      if (!parse_line(text.substr(begin, end - begin))) return false;
      begin = end + 1;
    }
    return complete();
  }

 private:
  bool parse_line(const std::string& line) {
    const std::string content = trimmed(line);
    if (content.empty() || content[0] == '#') return true;
    if (line[0] == ' ' || line[0] == '\t') {
      return complain("the line is indented; expected one 'key: value' to a line, from its beginning");
    }
    const size_t colon = content.find(':');
    const bool separated = colon != std::string::npos && (colon + 1 == content.size() || content[colon + 1] == ' ');
    if (!separated) return complain(quoted(content) + " is no 'key: value'; expected a key, a colon, a blank, a value");
    const std::string name = content.substr(0, colon);
    for (size_t i = 0; i < kKeyCount; ++i) {
      if (name == kKeys[i].name) return parse_value(i, trimmed(content.substr(colon + 1)));
    }
    return complain("unknown key " + quoted(name) + "; expected " + key_names());
  }

  bool parse_value(size_t i, std::string value) {
    const Key& key = kKeys[i];
    if (seen_at_[i] != 0) {
      return complain(quoted(key.name) + " is given twice, in line " + std::to_string(seen_at_[i]) +
                      " before; expected each key once");
    }
    seen_at_[i] = line_;
    if (!strip_quotes_and_comment(&value)) return false;
    if (value.empty()) return complain(quoted(key.name) + " has no value");
    if (key.kind == ValueKind::kText) return store_text(key, value);
    return store_number(key, value);
  }

  // A value in quotes ends with them, a plain one at " #"; nothing but a comment may follow quotes.
  bool strip_quotes_and_comment(std::string* value) {
    const char quote = value->empty() ? '\0' : (*value)[0];
    if (quote != '"' && quote != '\'') {
      if (quote == '#') value->clear();
      *value = trimmed(value->substr(0, value->find(" #")));
      return true;
    }
    const size_t end = value->find(quote, 1);
    if (end == std::string::npos) return complain("the quote " + quoted(*value) + " has no end");
    const std::string rest = trimmed(value->substr(end + 1));
    if (!rest.empty() && rest[0] != '#')
      return complain(quoted(rest) + " follows the value; expected nothing or # ...");
    *value = value->substr(1, end - 1);
    return true;
  }

  bool store_text(const Key& key, const std::string& value) {
    for (const char c : value) {
      if (static_cast<unsigned char>(c) < ' ') return complain(quoted(key.name) + " has a control character");
    }
    if (value.size() >= key.size) {
      return complain(quoted(key.name) + " has " + std::to_string(value.size()) + " bytes; expected up to " +
                      std::to_string(key.size - 1));
    }
    std::memcpy(member(key), value.c_str(), value.size() + 1);
    return true;
  }

  bool store_number(const Key& key, const std::string& value) {
    double number = 0;
    std::string rest;
    bool parsed = key.kind == ValueKind::kBytes ? parse_bytes(value, &number) : parse_digits(value, &number, &rest);
    const bool whole = key.kind != ValueKind::kDecimal;
    parsed =
        parsed && rest.empty() && (key.kind == ValueKind::kBytes || !whole || value.find('.') == std::string::npos);
    if (!parsed || number < key.least || number > key.most) {
      return complain(quoted(key.name) + " is " + quoted(value) + "; expected " + expected_number(key));
    }
    if (!whole) {
      std::memcpy(member(key), &number, sizeof number);
    } else if (key.size == sizeof(int32_t)) {
      const auto narrow = static_cast<int32_t>(number);
      std::memcpy(member(key), &narrow, sizeof narrow);
    } else {
      const auto wide = static_cast<uint64_t>(number);
      std::memcpy(member(key), &wide, sizeof wide);
    }
    return true;
  }

  static std::string expected_number(const Key& key) {
    if (key.kind == ValueKind::kBytes) {
      return "a number with the unit B, KiB, MiB or GiB, such as 4 GiB, from " + number_text(key.least) +
             " B to 131072 GiB";
    }
    return std::string(key.kind == ValueKind::kWhole ? "a whole number" : "a number") + " from " +
           number_text(key.least) + " to " + number_text(key.most);
  }

  // What only the whole shows.
  bool complete() {
    line_ = 0;
    std::string missing;
    for (size_t i = 0; i < kKeyCount; ++i) {
      if (kKeys[i].required && seen_at_[i] == 0) missing += (missing.empty() ? "" : ", ") + std::string(kKeys[i].name);
    }
    if (!missing.empty()) return complain("required keys are missing: " + missing);
    if (profile_->reserve >= profile_->memory) {
      return complain("the reserve of " + std::to_string(profile_->reserve) +
                      " bytes leaves nothing of the memory of " + std::to_string(profile_->memory) +
                      " bytes; expected less");
    }
    const uint64_t usable = profile_->memory - profile_->reserve;
    if (profile_->max_allocation == 0) profile_->max_allocation = usable;
    if (profile_->max_allocation > profile_->memory) {
      return complain("the max_allocation of " + std::to_string(profile_->max_allocation) +
                      " bytes is more than the memory of " + std::to_string(profile_->memory) +
                      " bytes; expected at most that");
    }
    return true;
  }

  static std::string key_names() {
    std::string names;
    for (const Key& key : kKeys) names += (names.empty() ? "" : ", ") + std::string(key.name);
    return names;
  }

  char* member(const Key& key) { return reinterpret_cast<char*>(profile_) + key.offset; }

  bool complain(const std::string& what) {
    *complaint_ = quoted(file_) + (line_ > 0 ? ", line " + std::to_string(line_) : "") + ": " + what;
    return false;
  }

  const std::string& file_;
  DeviceProfile* const profile_;
  std::string* const complaint_;
  size_t line_ = 0;
  size_t seen_at_[kKeyCount] = {};  // line of each key
};

}  // namespace

bool parse_profile(const std::string& text, const std::string& file, DeviceProfile* profile, std::string* complaint) {
  return ProfileParser(file, profile, complaint).parse(text);
}

}  // namespace unihal::stub
