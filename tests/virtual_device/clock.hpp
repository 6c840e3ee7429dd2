// The device's clock: what each stream has to do, when it has done it, and what the host waits for.
//
// A stream does its commands in their order. Most are done, on the clock, as soon as they are given. A command that
// waits for another stream or for another rank has an end that is not known yet, and so have those behind it: they
// stay in the stream's line until it is known. The host is held up by nobody but itself, as on a GPU.

#pragma once

#include <c10/util/Exception.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace virtual_device {

constexpr int kStreams = 64;
constexpr int64_t kUnknown = -1;
constexpr int64_t kPatience = 60'000'000'000;  // ns for which a host waits for another rank
enum Kind { kKernel, kCopy, kCollective, kLateRank };  // the last: a collective that waits for other ranks

struct Span {
  int64_t start, end;
  int stream;
  int kind;
};

using Command = std::function<bool()>;  // does it on the clock; false where its time is not known yet

struct World {
  std::mutex lock;
  std::vector<int64_t> busy = std::vector<int64_t>(kStreams, 0);  // when each stream has done its work, ns
  std::vector<std::deque<Command>> lines = std::vector<std::deque<Command>>(kStreams);
  std::deque<int64_t> queue;  // ends of what is launched and not done, as far as they are known
  size_t unknown = 0;         // launches whose end is not known
  size_t depth = 1024;
  double launch_ns = 0;       // what a launch takes the host beyond its own work
  double kernel_ns = 10'000;  // a kernel whose cost nobody set
  double bandwidth = 12e9;    // of copies between host and device, bytes a second
  double link = 50e9;         // of collectives, bytes a second
  double latency_ns = 10'000; // of a collective
  double late_ns = 0;         // how much later than its work an event is seen as done
  std::unordered_map<std::string, double> costs;
  std::vector<Span> spans;
  bool keep_spans = false;
  std::atomic<int64_t> launches{0}, copies{0}, collectives{0}, syncs{0}, waits_ns{0}, full_ns{0}, allocations{0},
      events{0}, queries{0}, allocated{0}, peak{0}, captured{0};
  std::atomic<bool> capturing{false};
  double captured_ns = 0;
  pid_t born = getpid();
};

inline World& world() {
  static auto* one = new World();  // leaked: tensors are freed after static destructors
  return *one;
}

inline thread_local int current_stream = 0;
inline thread_local int unpriced = 0;

// While there is one, what this thread launches costs nothing and is not counted.
struct Unpriced {
  Unpriced() {
    ++unpriced;
  }
  ~Unpriced() {
    --unpriced;
  }
};

inline int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Sleeps to a moment; the last of it awake, for a sleep ends up to 100 us late.
inline void sleep_until(int64_t moment) {
  for (int64_t left = moment - now(); left > 0; left = moment - now()) {
    if (left > 150'000) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(left - 120'000));
    }
  }
}

inline void forked_is_an_error(const char* what) {
  TORCH_CHECK(getpid() == world().born, "virtual device: ", what, " in a forked child");
}

// ------------------------------------------------------------------------------------------ lines of streams
// All of these are called with the world's lock held.

inline void put(int stream, Command command) {
  auto& line = world().lines[stream];
  if (!line.empty() || !command()) line.push_back(std::move(command));
}

// Does what can be done now: another rank may have come.
inline void progress() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& line : world().lines) {
      while (!line.empty() && line.front()()) {
        line.pop_front();
        moved = true;
      }
    }
  }
}

inline void keep(int64_t start, int64_t end, int stream, int kind) {
  auto& w = world();
  if (w.keep_spans && end > start) w.spans.push_back({start, end, stream, kind});
}

inline void into_queue(int64_t end) {
  auto& queue = world().queue;
  queue.insert(std::upper_bound(queue.begin(), queue.end(), end), end);
}

// A moment of the device's clock.
struct Moment {
  int64_t when = kUnknown;
};
using MomentPtr = std::shared_ptr<Moment>;

inline MomentPtr mark(int stream, int64_t at) {
  auto moment = std::make_shared<Moment>();
  put(stream, [=] {
    moment->when = std::max(at, world().busy[stream]);
    return true;
  });
  return moment;
}

inline void wait_for(int stream, const MomentPtr& moment) {
  put(stream, [=] {
    if (moment->when == kUnknown) return false;
    auto& busy = world().busy[stream];
    busy = std::max(busy, moment->when);
    return true;
  });
}

inline bool at_rest(int stream) {
  return world().lines[stream].empty();
}

// ---------------------------------------------------------------------------------------------------- the host
// These take the lock themselves.

// Waits until something is known; another rank may have to come first.
inline void until_known(std::unique_lock<std::mutex>& guard, const std::function<bool()>& known) {
  for (int64_t began = now();;) {
    progress();
    if (known()) return;
    TORCH_CHECK(now() - began < kPatience, "virtual device: another rank does not come");
    guard.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    guard.lock();
  }
}

// Holds the host up while the queue is full, as a driver does.
inline void room_in_queue(std::unique_lock<std::mutex>& guard) {
  auto& w = world();
  auto drop_done = [&] {
    while (!w.queue.empty() && w.queue.front() <= now()) w.queue.pop_front();
  };
  drop_done();
  if (w.queue.size() + w.unknown < w.depth) return;
  int64_t began = now();
  until_known(guard, [&] {
    drop_done();
    return w.unknown < w.depth;
  });
  if (w.queue.size() + w.unknown >= w.depth) {
    int64_t until = w.queue[w.queue.size() + w.unknown - w.depth];
    guard.unlock();
    sleep_until(until);
    guard.lock();
  }
  w.full_ns += now() - began;
}

// Puts work on a stream's clock.
inline void launch(double cost_ns, int kind) {
  if (unpriced) return;
  auto& w = world();
  std::unique_lock<std::mutex> guard(w.lock);
  if (w.capturing) {
    w.captured_ns += cost_ns;
    w.captured += 1;
    return;
  }
  forked_is_an_error("work");
  (kind == kCopy ? w.copies : w.launches) += 1;
  room_in_queue(guard);
  int64_t at = now();
  if (w.launch_ns > 0) {
    guard.unlock();
    sleep_until(at + static_cast<int64_t>(w.launch_ns));
    guard.lock();
    at = now();
  }
  int stream = current_stream;
  auto cost = static_cast<int64_t>(cost_ns);
  w.unknown += 1;
  put(stream, [=] {
    auto& w = world();
    int64_t start = std::max(at, w.busy[stream]);
    w.busy[stream] = start + cost;
    w.unknown -= 1;
    into_queue(start + cost);
    keep(start, start + cost, stream, kind);
    return true;
  });
}

// The host waits until a moment of the device's clock, which another rank may decide.
inline void wait_until(const std::function<bool()>& known, const std::function<int64_t()>& moment) {
  auto& w = world();
  int64_t began = now(), until = 0;
  {
    std::unique_lock<std::mutex> guard(w.lock);
    TORCH_CHECK(!w.capturing, "virtual device: the host may not wait while a graph is captured");
    w.syncs += 1;
    until_known(guard, known);
    until = moment();
    w.waits_ns += std::max<int64_t>(0, std::max(now(), until) - began);
  }
  sleep_until(until);
}

inline void wait_for_stream(int stream) {
  wait_until([=] { return at_rest(stream); }, [=] { return world().busy[stream]; });
}

inline void wait_for_moment(const MomentPtr& moment) {
  wait_until([=] { return moment->when != kUnknown; }, [=] { return moment->when; });
}

inline void synchronize() {
  wait_until(
      [] {
        const auto& lines = world().lines;
        return std::all_of(lines.begin(), lines.end(), [](const auto& line) { return line.empty(); });
      },
      [] { return *std::max_element(world().busy.begin(), world().busy.end()); });
}

// Whether the device has passed it, as far as is known.
inline bool passed(const MomentPtr& moment, double late_ns) {
  std::lock_guard<std::mutex> guard(world().lock);
  progress();
  return moment->when != kUnknown && now() >= moment->when + static_cast<int64_t>(late_ns);
}

}  // namespace virtual_device
