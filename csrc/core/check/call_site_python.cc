// The Python lines of a call site.
//
// The core does not link Python; it looks for CPython's functions in the process. The calling thread usually does not
// hold the GIL (frameworks release it before kernels run) and must not take it: it may hold a lock that the GIL's
// holder waits for. CPython 3.11 and 3.12 export what faulthandler uses, which prints a thread's stack without the GIL,
// by a write to a file for each word: hundreds of microseconds for the stack of a test. In 3.11 the frames are read as
// faulthandler reads them, once that has given the same text as a print. Where there is neither, only a thread that
// holds the GIL can be asked.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/core/check/call_site.h"

namespace unihal::core {
namespace {

constexpr size_t kMostPythonLines = 3;
constexpr size_t kMostDumpBytes = size_t{16} << 10;

// CPython's functions, as far as they were found. Objects are passed as void*.
struct Python {
  int (*is_initialized)() = nullptr;
  int (*is_finalizing)() = nullptr;
  void* (*state_of_this_thread)() = nullptr;
  void* (*state_that_runs)() = nullptr;

  void (*dump_traceback)(int descriptor, void* state) = nullptr;

  const unsigned long* version = nullptr;  // since 3.11
  const void* traces_references = nullptr;
  int (*line_of)(const void* code, int byte) = nullptr;

  void* (*eval_get_frame)() = nullptr;  // borrowed
  void* (*frame_get_back)(void* frame) = nullptr;
  void* (*frame_get_code)(void* frame) = nullptr;
  int (*frame_get_line)(void* frame) = nullptr;
  void* (*get_attribute)(void* object, const char* name) = nullptr;
  const char* (*utf8_of)(void* text, ssize_t* length) = nullptr;
  void (*increase_references)(void* object) = nullptr;
  void (*decrease_references)(void* object) = nullptr;
  void (*fetch_error)(void** type, void** value, void** traceback) = nullptr;
  void (*restore_error)(void* type, void* value, void* traceback) = nullptr;

  // Whether the structures are those of struct Code and so on, below: the release, and a build without fields of its
  // own.
  bool can_read() const {
    return version != nullptr && *version >> 16 == 0x030B && traces_references == nullptr && line_of != nullptr;
  }
  bool can_dump() const { return dump_traceback != nullptr; }
  bool can_walk() const {
    return state_that_runs && eval_get_frame && frame_get_back && frame_get_code && frame_get_line && get_attribute &&
           utf8_of && increase_references && decrease_references && fetch_error && restore_error;
  }
};

template <class Function>
void find(Function* function, const char* name) {
  if (*function == nullptr) *function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

const Python& python() {
  static const Python* const instance = [] {
    auto* found = new Python;
    find(&found->is_initialized, "Py_IsInitialized");
    find(&found->is_finalizing, "Py_IsFinalizing");  // since 3.13
    find(&found->is_finalizing, "_Py_IsFinalizing");
    find(&found->state_of_this_thread, "PyGILState_GetThisThreadState");
    find(&found->state_that_runs, "PyThreadState_GetUnchecked");  // since 3.13
    find(&found->state_that_runs, "_PyThreadState_UncheckedGet");
    find(&found->dump_traceback, "_Py_DumpTraceback");  // 3.11, 3.12
    find(&found->version, "Py_Version");
    find(&found->traces_references, "_Py_PrintReferences");
    find(&found->line_of, "PyCode_Addr2Line");
    find(&found->eval_get_frame, "PyEval_GetFrame");
    find(&found->frame_get_back, "PyFrame_GetBack");
    find(&found->frame_get_code, "PyFrame_GetCode");
    find(&found->frame_get_line, "PyFrame_GetLineNumber");
    find(&found->get_attribute, "PyObject_GetAttrString");
    find(&found->utf8_of, "PyUnicode_AsUTF8AndSize");
    find(&found->increase_references, "Py_IncRef");
    find(&found->decrease_references, "Py_DecRef");
    find(&found->fetch_error, "PyErr_Fetch");
    find(&found->restore_error, "PyErr_Restore");
    return found;
  }();
  return *instance;
}

// -- the stack as text, one line a frame: `  File "train.py", line 12 in forward` ----------------------

// Files in memory that no thread uses now. A thread takes one for the time of a dump, so that nothing has to be cleaned
// up when threads end.
class DumpFiles {
 public:
  int take() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!unused_.empty()) {
        int descriptor = unused_.back();
        unused_.pop_back();
        return descriptor;
      }
    }
    return memfd_create("unihal call site", MFD_CLOEXEC);
  }

  void give_back(int descriptor) {
    std::lock_guard<std::mutex> lock(mutex_);
    unused_.push_back(descriptor);
  }

 private:
  std::mutex mutex_;
  std::vector<int> unused_;
};

std::string dumped_stack(void* state) {
  static auto* const files = new DumpFiles;
  const int file = files->take();
  if (file < 0) return "";
  std::string text;
  if (lseek(file, 0, SEEK_SET) == 0) {
    python().dump_traceback(file, state);
    const off_t written = lseek(file, 0, SEEK_CUR);
    text.resize(written > 0 ? std::min(static_cast<size_t>(written), kMostDumpBytes) : 0);
    const ssize_t got = pread(file, text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  }
  files->give_back(file);
  return text;
}

// What of CPython 3.11's structures tells where a thread is; the numbers are the bytes of what lies between. A release
// never changes them. The thread's own frames stay as they are while it is here, and so does what they refer to.
namespace python_3_11 {

struct Text {
  char head[16];
  ssize_t length;
  char hash[8];
  uint32_t state;
  char wide[8];
  static constexpr uint32_t kAscii = 0xE0;  // compact, ascii and ready: the characters lie behind it
};
static_assert(offsetof(Text, state) == 32 && sizeof(Text) == 48);

struct Code {
  char head[112];
  const Text* file;
  const Text* name;
  char tables[56];
  char instructions[1];
};
static_assert(offsetof(Code, instructions) == 184);

struct Frame {
  char head[32];
  const Code* code;
  char object[8];
  const Frame* caller;
  const char* instruction;
};
static_assert(offsetof(Frame, instruction) == 56);

struct NativeFrame {
  char head[8];
  const Frame* frame;
};

struct ThreadState {
  char head[56];
  const NativeFrame* native;
};

// False for a text that a print would write in other characters, or shorten.
bool append(const Text* text, std::string* to) {
  constexpr ssize_t kLongest = 500;
  if (text == nullptr || (text->state & Text::kAscii) != Text::kAscii || text->length > kLongest) return false;
  to->append(reinterpret_cast<const char*>(text + 1), static_cast<size_t>(text->length));
  return true;
}

// The stack as it would be printed; false where it would have something of its own.
bool read_stack(const void* state, std::string* text) {
  constexpr int kMostFrames = 100;
  int frames = 0;
  const NativeFrame* const native = static_cast<const ThreadState*>(state)->native;
  for (const Frame* frame = native->frame; frame != nullptr; frame = frame->caller) {
    if (++frames > kMostFrames) {
      *text += "  ...\n";
      return true;
    }
    const Code* const code = frame->code;
    const auto byte = static_cast<int>(frame->instruction - code->instructions);
    *text += "  File \"";
    if (!append(code->file, text)) return false;
    const int line = python().line_of(code, byte);
    *text += "\", line " + (line >= 0 ? std::to_string(line) : "???") + " in ";
    if (!append(code->name, text)) return false;
    *text += '\n';
  }
  return true;
}

}  // namespace python_3_11

// Prints the stack until a reading has given the same, and reads it from then on.
std::string read_or_dumped_stack(void* state) {
  enum Trust { kUntried, kReads, kPrints };
  static std::atomic<Trust> trust{kUntried};
  const Trust now = python().can_read() ? trust.load(std::memory_order_relaxed) : kPrints;
  if (now == kPrints) return dumped_stack(state);
  std::string text;
  const bool read = python_3_11::read_stack(state, &text);
  if (read && now == kReads) return text;
  std::string printed = dumped_stack(state);
  if (read && !text.empty() && now == kUntried && printed.size() < kMostDumpBytes) {
    // Before the frames stands a line of its own.
    const bool same =
        printed.size() >= text.size() && printed.compare(printed.size() - text.size(), text.size(), text) == 0;
    trust.store(same ? kReads : kPrints, std::memory_order_relaxed);
  }
  return printed;
}

// A text attribute of a code object.
std::string text_of(void* code, const char* name) {
  std::string text = "?";
  void* value = python().get_attribute(code, name);
  if (value == nullptr) return text;
  ssize_t length = 0;
  if (const char* utf8 = python().utf8_of(value, &length)) text.assign(utf8, static_cast<size_t>(length));
  python().decrease_references(value);
  return text;
}

// For a thread that holds the GIL.
std::string walked_stack() {
  const Python& py = python();
  void* error[3];
  py.fetch_error(&error[0], &error[1], &error[2]);
  std::string text;
  void* frame = py.eval_get_frame();
  if (frame != nullptr) py.increase_references(frame);
  while (frame != nullptr && text.size() < kMostDumpBytes) {
    void* code = py.frame_get_code(frame);
    text += "  File \"" + text_of(code, "co_filename") + "\", line " + std::to_string(py.frame_get_line(frame)) +
            " in " + text_of(code, "co_name") + "\n";
    py.decrease_references(code);
    void* outer = py.frame_get_back(frame);
    py.decrease_references(frame);
    frame = outer;
  }
  if (frame != nullptr) py.decrease_references(frame);
  py.restore_error(error[0], error[1], error[2]);
  return text;
}

std::string stack_of_this_thread() {
  const Python& py = python();
  if (!py.is_initialized || !py.is_finalizing || !py.state_of_this_thread) return "";
  // States of threads are deleted towards the interpreter's end.
  if (py.is_initialized() == 0 || py.is_finalizing() != 0) return "";
  void* state = py.state_of_this_thread();
  if (state == nullptr) return "";
  if (py.can_dump()) return read_or_dumped_stack(state);
  return py.can_walk() && py.state_that_runs() == state ? walked_stack() : "";
}

// -- its lines ---------------------------------------------------------------------------------

struct Line {
  std::string_view file;
  std::string_view number;
  std::string_view function;
};

bool read_line(std::string_view text, Line* line) {
  constexpr std::string_view kFile = "  File \"", kNumber = "\", line ", kFunction = " in ";
  const size_t number = text.rfind(kNumber);
  if (text.substr(0, kFile.size()) != kFile || number == std::string_view::npos) return false;
  const size_t function = text.find(kFunction, number + kNumber.size());
  if (function == std::string_view::npos) return false;
  line->file = text.substr(kFile.size(), number - kFile.size());
  line->number = text.substr(number + kNumber.size(), function - number - kNumber.size());
  line->function = text.substr(function + kFunction.size());
  return true;
}

std::vector<Line> read_lines(std::string_view text) {
  std::vector<Line> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    Line line;
    if (read_line(text.substr(0, end), &line)) lines.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

bool has_prefix(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

// ".../site-packages/unihal/": this library lies in its folder lib.
const std::string& package_folder() {
  static const std::string* const instance = [] {
    std::string path;
    Dl_info library;
    if (dladdr(reinterpret_cast<void*>(&package_folder), &library) != 0 && library.dli_fname != nullptr) {
      if (char* resolved = realpath(library.dli_fname, nullptr)) {
        path = resolved;
        free(resolved);
      }
    }
    const size_t file = path.rfind('/');
    const size_t folder = file == std::string::npos || file == 0 ? std::string::npos : path.rfind('/', file - 1);
    return new std::string(folder == std::string::npos ? "" : path.substr(0, folder + 1));
  }();
  return *instance;
}

bool is_ours(const Line& line) { return !package_folder().empty() && has_prefix(line.file, package_folder()); }

// Whether a line is the user's own: not an installed package's, the standard library's or the interpreter's.
bool is_users(const Line& line) {
  return line.file.find("/site-packages/") == std::string_view::npos &&
         line.file.find("/dist-packages/") == std::string_view::npos &&
         line.file.find("/lib/python") == std::string_view::npos && !has_prefix(line.file, "<frozen");
}

void append(std::string* site, const Line& line, bool gap) {
  if (!site->empty()) *site += gap ? " < ... < " : " < ";
  const size_t slash = line.file.rfind('/');
  *site += line.file.substr(slash == std::string_view::npos ? 0 : slash + 1);
  *site += ':';
  *site += line.number;
  *site += " in ";
  *site += line.function;
}

}  // namespace

std::string python_call_site() {
  const std::string stack = stack_of_this_thread();
  const std::vector<Line> lines = read_lines(stack);
  size_t first = 0;
  while (first < lines.size() && is_ours(lines[first])) ++first;
  if (first == lines.size()) first = 0;  // our own command line
  const bool any_of_user = std::any_of(lines.begin(), lines.end(), is_users);
  std::string site;
  size_t count = 0;
  size_t last = first;
  for (size_t i = first; i < lines.size() && count < kMostPythonLines; ++i) {
    if (i != first && any_of_user && !is_users(lines[i])) continue;
    append(&site, lines[i], i > last + 1);
    last = i;
    ++count;
  }
  return site;
}

}  // namespace unihal::core
