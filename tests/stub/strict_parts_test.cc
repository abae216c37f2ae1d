// Parts of the strict mode by themselves, with a core that only takes notes.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "stub/common/failure.h"
#include "stub/strict/delays.h"
#include "stub/strict/event.h"
#include "stub/strict/stream.h"

namespace unihal::stub {
namespace {

std::vector<std::string> reported;
std::vector<std::string> stream_errors;

const uhal_host kNotes = {
    sizeof(uhal_host),
    UHAL_ABI_MAJOR,
    UHAL_ABI_MINOR,
    [](uhal_status, int32_t, const char*, const char* message) { reported.push_back(message); },
    [](uhal_stream*, uhal_status status, const char* op, const char* message) {
      stream_errors.push_back(std::to_string(status) + " " + op + ": " + message);
    },
    nullptr,
    nullptr,
};

}  // namespace

const uhal_host& host() { return kNotes; }

namespace {

TEST(FailureCapture, KeepsMessagesFromTheRecord) {
  fail(UHAL_INTERNAL, "before %d", 1);
  {
    const FailureCapture outer;
    EXPECT_STREQ("", outer.message());
    EXPECT_EQ(UHAL_INTERNAL, fail(UHAL_INTERNAL, "within %d", 2));
    {
      const FailureCapture inner;
      fail(UHAL_INTERNAL, "deeper");
      EXPECT_STREQ("deeper", inner.message());
    }
    EXPECT_STREQ("within 2", outer.message());
    fail(UHAL_INTERNAL, "%s", std::string(2000, 'x').c_str());
    EXPECT_EQ(std::string(511, 'x'), outer.message()) << "cut, not overrun";
  }
  fail(UHAL_INTERNAL, "after");
  EXPECT_EQ(std::vector<std::string>({"before 1", "after"}), reported);
}

TEST(Stream, AFailedCommandsOwnMessageReachesTheStream) {
  int ran = 0;
  {
    strict::Stream stream(nullptr, 0, 0);
    stream.submit({"first", [&] { return fail(UHAL_DATA_LOSS, "the scratch memory of %d is gone", 7); }});
    stream.submit({"second", [&]() -> uhal_status {
                     ++ran;
                     return UHAL_OK;
                   }});
    stream.submit({"third", [&]() -> uhal_status { return UHAL_INTERNAL; }});
    stream.synchronize();
    EXPECT_TRUE(stream.idle());
  }
  EXPECT_EQ(1, ran) << "a stream goes on after an error";
  EXPECT_EQ(std::vector<std::string>({std::to_string(UHAL_DATA_LOSS) + " first: the scratch memory of 7 is gone",
                                      std::to_string(UHAL_INTERNAL) + " third: "}),
            stream_errors);
  EXPECT_TRUE(reported.empty()) << "the stream's thread has no record that anybody reads";
}

TEST(Stream, SubmissionsOfACommandRunAfterIt) {
  strict::Stream stream(nullptr, 0, 0);
  std::string order;
  stream.submit({"outer", [&]() -> uhal_status {
                   stream.submit({"inner", [&]() -> uhal_status {
                                    order += "inner";
                                    return UHAL_OK;
                                  }});
                   order += "outer ";
                   return UHAL_OK;
                 }});
  while (!stream.idle()) std::this_thread::yield();
  EXPECT_EQ("outer inner", order);
}

TEST(Stream, GivesUpWaitingInTime) {
  strict::Stream stream(nullptr, 0, 0);
  strict::Stream other(nullptr, 0, 1);
  strict::Record record(&other);
  stream.submit({"wait", [&]() -> uhal_status {
                   record.wait();
                   return UHAL_OK;
                 }});
  EXPECT_FALSE(stream.synchronize_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(20)));
  EXPECT_FALSE(record.reached());
  record.reach();
  EXPECT_TRUE(record.reached());
  stream.synchronize();
}

std::vector<int64_t> decisions(uint64_t seed, uint64_t stream) {
  strict::Delays delays(seed, stream);
  std::vector<int64_t> result;
  for (int i = 0; i < 5000; ++i) {
    const strict::Delay delay = delays.next();
    result.push_back(delay.kind * 10000 + delay.length.count());
  }
  return result;
}

TEST(Delays, AreAFunctionOfSeedAndStream) {
  EXPECT_EQ(decisions(1, 2), decisions(1, 2));
  EXPECT_NE(decisions(1, 2), decisions(1, 3));
  EXPECT_NE(decisions(1, 2), decisions(2, 2));
  EXPECT_NE(decisions(0, 1), decisions(1, 0));
}

TEST(Delays, OfEachKindAndShort) {
  int64_t kinds[4] = {};
  int64_t microseconds = 0;
  constexpr int kCommands = 100000;
  strict::Delays delays(42, 0);
  for (int i = 0; i < kCommands; ++i) {
    const strict::Delay delay = delays.next();
    ++kinds[delay.kind];
    microseconds += delay.length.count();
    EXPECT_LE(delay.length.count(), 2000);
    EXPECT_GE(delay.length.count(), 0);
  }
  for (const int64_t count : kinds) EXPECT_GT(count, 0);
  EXPECT_LT(microseconds / kCommands, 20) << "the mean delay of a command";
}

}  // namespace
}  // namespace unihal::stub
