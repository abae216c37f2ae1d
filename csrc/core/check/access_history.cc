#include "csrc/core/check/access_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace unihal::core {
namespace {

size_t span_class(uintptr_t bytes) { return static_cast<size_t>(63 - __builtin_clzll(bytes)); }

// The most bytes that a view of a class has from its first to its last.
uintptr_t longest_span(size_t span_class) { return (uintptr_t{2} << span_class) - 1; }

// Collects what conflicts with one access, each once.
class Conflicts {
 public:
  Conflicts(const Operand& operand, const VectorClock& before) : operand_(operand), before_(before) {}

  // `bytes`: those of the earlier access that are in question.
  void consider(const Access& earlier, const ByteSet& bytes) {
    if (!operand_.writes && !earlier.operand().writes) return;
    if (before_.includes(earlier.work->moment) || !operand_.bytes.overlaps(bytes)) return;
    // The cells of one access are often neighbours, and many.
    if (std::find(found_.rbegin(), found_.rend(), earlier) == found_.rend()) found_.push_back(earlier);
  }

  std::vector<Access> take() { return std::move(found_); }

 private:
  const Operand& operand_;
  const VectorClock& before_;
  std::vector<Access> found_;
};

// Drops the reads that come before `before`, for which a later one stands.
void drop_reads_before(std::vector<Access>* reads, const VectorClock& before) {
  reads->erase(std::remove_if(reads->begin(), reads->end(),
                              [&](const Access& read) { return before.includes(read.work->moment); }),
               reads->end());
}

}  // namespace

// The first cell that ends after an address.
AccessHistory::Cells::const_iterator AccessHistory::first_cell(uintptr_t address) const {
  auto after = cells_.upper_bound(address);
  if (after != cells_.begin() && std::prev(after)->second.end > address) return std::prev(after);
  return after;
}

// Makes no cell reach over an address; returns the first cell at or after it.
AccessHistory::Cells::iterator AccessHistory::cut(uintptr_t address) {
  auto at = cells_.lower_bound(address);
  if (at == cells_.begin()) return at;
  auto before = std::prev(at);
  if (before->second.end <= address) return at;
  Cell upper = before->second;
  before->second.end = address;
  return cells_.emplace_hint(at, address, std::move(upper));
}

// Visits the places of views that may have a byte in [begin, end): (class, iterator).
template <class Visitor>
void AccessHistory::visit_views(uintptr_t begin, uintptr_t end, Visitor&& visit) const {
  for (size_t i = 0; i < kSpanClasses; ++i) {
    const Views& views = views_[i];
    if (views.empty()) continue;
    uintptr_t span = longest_span(i);
    for (auto at = views.lower_bound(begin > span ? begin - span : 0); at != views.end() && at->first < end;) {
      auto current = at++;
      visit(i, current);
    }
  }
}

std::vector<Access> AccessHistory::conflicts(const Access& access, const VectorClock& before) const {
  const Operand& operand = access.operand();
  const uintptr_t begin = operand.bytes.begin(), end = operand.bytes.end();
  Conflicts conflicts(operand, before);
  for (auto cell = first_cell(begin); cell != cells_.end() && cell->first < end; ++cell) {
    ByteSet bytes(cell->first, cell->second.end - cell->first);
    if (cell->second.write.work != nullptr) conflicts.consider(cell->second.write, bytes);
    for (const Access& read : cell->second.reads) conflicts.consider(read, bytes);
  }
  visit_views(begin, end, [&](size_t, Views::const_iterator view) {
    conflicts.consider(view->second, view->second.operand().bytes);
  });
  return conflicts.take();
}

void AccessHistory::add(const Access& access, const VectorClock& before) {
  const Operand& operand = access.operand();
  if (operand.bytes.empty()) return;
  if (!operand.bytes.dense()) {
    add_view(access, before);
  } else if (operand.writes) {
    add_write(access);
  } else {
    add_read(access, before);
  }
}

void AccessHistory::add_write(const Access& access) {
  const ByteSet& bytes = access.operand().bytes;
  forget(bytes.begin(), bytes.end());
  cells_.emplace(bytes.begin(), Cell{bytes.end(), access, {}});
}

void AccessHistory::add_read(const Access& access, const VectorClock& before) {
  const ByteSet& bytes = access.operand().bytes;
  auto cell = cut(bytes.begin());
  cut(bytes.end());
  for (uintptr_t at = bytes.begin(); at < bytes.end(); at = cell->second.end, ++cell) {
    if (cell == cells_.end() || cell->first > at) {
      // Nothing is known of the bytes up to the next cell.
      uintptr_t end = cell == cells_.end() ? bytes.end() : std::min(bytes.end(), cell->first);
      cell = cells_.emplace_hint(cell, at, Cell{end, {}, {}});
    }
    drop_reads_before(&cell->second.reads, before);
    cell->second.reads.push_back(access);
  }
}

void AccessHistory::add_view(const Access& access, const VectorClock& before) {
  const Operand& operand = access.operand();
  Views& views = views_[span_class(operand.bytes.end() - operand.bytes.begin())];
  auto [at, end] = views.equal_range(operand.bytes.begin());
  while (at != end) {
    const Operand& earlier = at->second.operand();
    bool stands_for = earlier.bytes == operand.bytes &&
                      (operand.writes || (!earlier.writes && before.includes(at->second.work->moment)));
    at = stands_for ? views.erase(at) : std::next(at);
  }
  views.emplace(operand.bytes.begin(), access);
}

void AccessHistory::forget(uintptr_t begin, uintptr_t end) {
  auto first = cut(begin);
  auto last = cut(end);
  // The second cut may have split the cell that the first one returned, which keeps its place.
  cells_.erase(first, last);
  forget_views(begin, end);
}

// Drops the views that lie wholly in a range.
void AccessHistory::forget_views(uintptr_t begin, uintptr_t end) {
  visit_views(begin, end, [&](size_t span_class, Views::const_iterator view) {
    const ByteSet& bytes = view->second.operand().bytes;
    if (bytes.begin() >= begin && bytes.end() <= end) views_[span_class].erase(view);
  });
}

void AccessHistory::forget_before(const VectorClock& seen) {
  for (auto cell = cells_.begin(); cell != cells_.end();) {
    Access& write = cell->second.write;
    if (write.work != nullptr && seen.includes(write.work->moment)) write = {};
    drop_reads_before(&cell->second.reads, seen);
    bool empty = write.work == nullptr && cell->second.reads.empty();
    cell = empty ? cells_.erase(cell) : std::next(cell);
  }
  for (Views& views : views_) {
    for (auto view = views.begin(); view != views.end();) {
      view = seen.includes(view->second.work->moment) ? views.erase(view) : std::next(view);
    }
  }
}

void AccessHistory::forget_old(const VectorClock& seen) {
  if (size() < worth_forgetting_) return;
  forget_before(seen);
  worth_forgetting_ = std::max(kFewRecords, 2 * size());
}

size_t AccessHistory::size() const {
  size_t count = cells_.size();
  for (const Views& views : views_) count += views.size();
  return count;
}

}  // namespace unihal::core
