// Collectives on the virtual device: ranks meet in time, as NCCL's do.
//
// A collective has a stream of its own. It begins when the rank's stream has come so far, and ends when the last
// rank has come and its cost has passed. When a rank comes is written into memory that all ranks share, for their
// clocks are one. No host waits for another: it launches and goes on, until it asks for a value.
//
// Ranks do not meet in numbers: each computes as if all others had its own. For numbers are computed when they are
// launched, and exchanging them then would hold the hosts together, which is what no GPU does.

#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/distributed/c10d/FakeProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "clock.hpp"

namespace virtual_device {

constexpr size_t kMeetings = 1 << 18;  // of one group; the file has holes where nobody came
constexpr auto kTick = std::chrono::microseconds(200);

inline c10::Device first_device() {
  return c10::Device(c10::DeviceType::PrivateUse1, 0);
}

// When each rank came to each meeting of a group; 0 where it has not.
struct Board {
  std::atomic<int64_t>* cells;
  int size;

  Board(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) : size(size) {
    size_t bytes = kMeetings * size * sizeof(int64_t);
    std::string path;
    if (rank == 0) {
      path = (std::filesystem::temp_directory_path() / "gpudoctor-meetings-XXXXXX").string();
      int made = mkstemp(path.data());
      TORCH_CHECK(made >= 0 && ftruncate(made, static_cast<off_t>(bytes)) == 0, "virtual device: no shared memory");
      close(made);
      store->set("board", std::vector<uint8_t>(path.begin(), path.end()));
    } else {
      auto told = store->get("board");
      path.assign(told.begin(), told.end());
    }
    int file = open(path.c_str(), O_RDWR);
    TORCH_CHECK(file >= 0, "virtual device: no shared memory");
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    TORCH_CHECK(at != MAP_FAILED, "virtual device: no shared memory");
    cells = static_cast<std::atomic<int64_t>*>(at);  // never unmapped: a stream's line may ask for it at the end
    if (store->add("mapped", 1) == size) unlink(path.c_str());
  }

  // A rank comes; when the last one has, or `kUnknown`.
  int64_t come(size_t meeting, int rank, int64_t when) {
    auto* row = cells + meeting * size;
    row[rank].store(when);
    int64_t last = 0;
    for (int one = 0; one < size; ++one) {
      int64_t came = row[one].load();
      if (came == 0) return kUnknown;
      last = std::max(last, came);
    }
    return last;
  }
};

// Another rank's meetings go on while this one's host is busy: its arrivals are told in the background.
inline void tell_in_background() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::thread([] {
      for (;;) {
        std::this_thread::sleep_for(kTick);
        std::lock_guard<std::mutex> guard(world().lock);
        progress();
      }
    }).detach();
  });
}

struct Meeting final : c10d::Work {
  Meeting(MomentPtr end, bool blocks, c10::intrusive_ptr<c10::ivalue::Future> future)
      : end(std::move(end)), blocks(blocks), future(std::move(future)) {}
  bool isCompleted() override {
    return passed(end, 0);
  }
  bool wait(std::chrono::milliseconds) override {
    if (blocks) {
      wait_for_moment(end);
    } else {
      blockCurrentStream();
    }
    return true;
  }
  void synchronize() override {
    blockCurrentStream();
  }
  void blockCurrentStream() override {
    std::lock_guard<std::mutex> guard(world().lock);
    wait_for(current_stream, end);
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    return future;
  }
  MomentPtr end;
  bool blocks;
  c10::intrusive_ptr<c10::ivalue::Future> future;
};

// torch's group for tests gives each rank its own numbers back; this one gives it the time.
struct Group final : c10d::FakeProcessGroup {
  using Base = c10d::FakeProcessGroup;
  using Tensors = std::vector<at::Tensor>;
  using Done = c10::intrusive_ptr<c10d::Work>;

  Group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size)
      : Base(rank, size, c10::make_intrusive<Base::Options>()),
        board(std::make_shared<Board>(store, rank, size)),
        stream(c10::impl::VirtualGuardImpl(first_device().type()).getNewStream(first_device())) {
    tell_in_background();
  }
  const std::string getBackendName() const override {
    return "vcl";
  }

  Done broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return meet(tensors, tensors, [&] { Base::broadcast(tensors, options); });
  }
  Done allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return meet(tensors, tensors, [&] { Base::allreduce(tensors, options); });
  }
  Done allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    return meet(tensors, tensors, [&] { Base::allreduce_coalesced(tensors, options); });
  }
  Done allgather(
      std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    return meet(outputs.at(0), outputs.at(0), [&] { Base::allgather(outputs, inputs, options); });
  }
  Done _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    return meet({output}, {output}, [&] { Base::_allgather_base(output, input, options); });
  }
  Done _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override {
    return meet({input}, {output}, [&] { Base::_reduce_scatter_base(output, input, options); });
  }
  Done barrier(const c10d::BarrierOptions&) override {
    return meet({}, {}, [] {}, true);
  }

 private:
  // `carried`: what goes over the link.
  Done meet(const Tensors& carried, const Tensors& made, const std::function<void()>& numbers, bool blocks = false) {
    auto& w = world();
    {
      Unpriced free;
      numbers();
    }
    double bytes = 0;
    for (const auto& one : carried) bytes += static_cast<double>(one.nbytes());
    MomentPtr end;
    {
      std::unique_lock<std::mutex> guard(w.lock);
      TORCH_CHECK(!w.capturing, "virtual device: a collective while a graph is captured");
      forked_is_an_error("a collective");
      w.collectives += 1;
      room_in_queue(guard);
      w.unknown += 1;
      int line = static_cast<int>(stream.id()), mine = rank_;
      wait_for(line, mark(current_stream, now()));
      put(line, [=, meeting = next++, board = board, cost = static_cast<int64_t>(bytes / w.link * 1e9 + w.latency_ns)] {
        auto& w = world();
        int64_t came = w.busy[line], last = board->come(meeting, mine, came);
        if (last == kUnknown) return false;
        w.busy[line] = last + cost;
        w.unknown -= 1;
        into_queue(last + cost);
        keep(came, last, line, kLateRank);
        keep(last, last + cost, line, kCollective);
        return true;
      });
      end = mark(line, 0);
    }
    c10::StreamGuard on(stream);
    auto future = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{first_device()});
    future->markCompleted(at::IValue(made));
    return c10::make_intrusive<Meeting>(end, blocks, future);
  }

  std::shared_ptr<Board> board;
  c10::Stream stream;
  size_t next = 0;
};

inline c10::intrusive_ptr<c10d::Backend> make_group(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::chrono::duration<float>&) {
  return c10::make_intrusive<Group>(store, rank, size);
}

}  // namespace virtual_device
