#include "stub/collectives/communicator.h"

#include <new>
#include <string>
#include <utility>

#include "csrc/backends/common/communicator_id.h"
#include "stub/collectives/exchange.h"
#include "stub/common/kernels.h"

namespace unihal::stub {
namespace {

// Cores before 1.4 do not have it.
auto wish_to_give_up() {
  const bool has = host().struct_size >= offsetof(uhal_host, is_wait_given_up) + sizeof host().is_wait_given_up;
  return has ? host().is_wait_given_up : nullptr;
}

}  // namespace

std::unique_ptr<Communicator> Communicator::create(int32_t rank, int32_t size, const uhal_communicator_id& id,
                                                   int64_t timeout_milliseconds, RankFailure* failure) {
  if (size > kMostRanks) {
    *failure = {UHAL_INVALID_ARGUMENT, "the stub's communicators have at most " + std::to_string(kMostRanks) +
                                           " ranks, and " + std::to_string(size) + " were asked for; use fewer"};
    return nullptr;
  }
  RankBoard::Place place = {"", rank, size, Segment::bytes(size)};
  *failure = read_communicator_id("stub", id, &place.name, nullptr, 0);
  if (*failure) return nullptr;
  std::unique_ptr<RankBoard> board = RankBoard::open(place, failure);
  if (board == nullptr) return nullptr;
  *failure = board->await_all({"the creation of a communicator", timeout_milliseconds, wish_to_give_up()});
  if (*failure) return nullptr;
  return std::unique_ptr<Communicator>(new Communicator(std::move(board), timeout_milliseconds));
}

Communicator::Communicator(std::unique_ptr<RankBoard> board, int64_t timeout_milliseconds)
    : board_(std::move(board)),
      segment_(board_->payload(), board_->size()),
      timeout_milliseconds_(timeout_milliseconds) {}

Communicator::~Communicator() {
  std::unique_lock<std::mutex> lock(mutex_);
  turned_.wait(lock, [this] { return done_ == taken_; });
}

uint64_t Communicator::take_turn() {
  std::lock_guard<std::mutex> lock(mutex_);
  return taken_++;
}

RankFailure Communicator::run(uint64_t turn, const uhal_collective* const* collectives, int32_t count) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    turned_.wait(lock, [&] { return done_ == turn; });
  }
  RankFailure failure;
  try {
    failure = run_all(collectives, count);
  } catch (const std::bad_alloc&) {
    failure = board_->fail({UHAL_RESOURCE_EXHAUSTED, "the host has no memory left for a collective"});
  }
  std::lock_guard<std::mutex> lock(mutex_);
  ++done_;
  turned_.notify_all();  // with the lock: the last turn's end lets the destructor go on
  return failure;
}

RankFailure Communicator::run_all(const uhal_collective* const* collectives, int32_t count) {
  Exchange exchange(*board_, segment_, &step_, timeout_milliseconds_, wish_to_give_up());
  int32_t begin = 0;
  while (begin < count) {
    if (RankFailure failure = earlier_failure()) return failure;
    int32_t end = begin;
    while (end < count && Exchange::is_between_two(*collectives[end])) ++end;
    RankFailure failure;
    if (end > begin) {
      failure = exchange.transfer(collectives + begin, end - begin);
      begin = end;
    } else {
      failure = exchange.run(*collectives[begin++]);
    }
    if (failure) return failure;
  }
  return {};
}

void Communicator::abort() {
  static_cast<void>(
      board_->fail({UHAL_ABORTED, "rank " + std::to_string(board_->rank()) + " of " + std::to_string(board_->size()) +
                                      " aborted the communicator; create another one with a new id"}));
}

}  // namespace unihal::stub
