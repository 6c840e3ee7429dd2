// A device that computes on the host at once and keeps a clock of its own.
//
// Its tensors lie in host memory under the dispatch key PrivateUse1. Every operator runs on the CPU as soon as it
// is called, so numbers are the CPU's. What it would have cost on the device is added to the clock of the current
// stream. Whoever asks for a value sleeps until that clock is reached, as on a GPU. So a program's wall time, its
// waits and its idle device time are those of an asynchronous device with the stated costs, and are known exactly.

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/GraphImplInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <pybind11/chrono.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "clock.hpp"
#include "collectives.hpp"

namespace {

using namespace virtual_device;

constexpr auto kDevice = c10::DeviceType::PrivateUse1;

// What a graph in the making does when it is replayed.
std::vector<std::function<void()>> recorded;

// ------------------------------------------------------------------------------------------------- memory

struct Block {
  void* data;
  size_t size;
};

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  world().allocated -= static_cast<int64_t>(block->size);
  std::free(block->data);
  delete block;
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    auto& w = world();  // a captured allocation comes from the graph's own pool: it is allowed
    auto* block = new Block{std::aligned_alloc(64, (std::max<size_t>(size, 1) + 63) / 64 * 64), size};
    w.allocations += 1;
    w.allocated += static_cast<int64_t>(size);
    w.peak = std::max<int64_t>(w.peak, w.allocated);
    return {block->data, block, &free_block, c10::Device(kDevice, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
};

DeviceAllocator device_allocator;
REGISTER_ALLOCATOR(kDevice, &device_allocator);

std::mutex pinned_lock;
std::map<const char*, size_t> pinned;  // start and size of each block

struct Pinned {
  char* data;
  pid_t owner;
};

// CUDA's page-locked memory belongs to a context that a forked child does not have: a child that frees it dies.
void free_pinned(void* context) {
  auto* block = static_cast<Pinned*>(context);
  if (block->owner != getpid()) {
    fputs("virtual device: pinned memory freed in a forked child\n", stderr);
    abort();
  }
  {
    std::lock_guard<std::mutex> guard(pinned_lock);
    pinned.erase(block->data);
  }
  std::free(block->data);
  delete block;
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    TORCH_CHECK(!world().capturing, "virtual device: pinned memory allocated while a graph is captured");
    auto* data = static_cast<char*>(std::aligned_alloc(64, (std::max<size_t>(size, 1) + 63) / 64 * 64));
    std::lock_guard<std::mutex> guard(pinned_lock);
    pinned[data] = std::max<size_t>(size, 1);
    return {data, new Pinned{data, getpid()}, &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
};

PinnedAllocator pinned_allocator;

bool is_pinned(const void* data) {
  std::lock_guard<std::mutex> guard(pinned_lock);
  auto next = pinned.upper_bound(static_cast<const char*>(data));
  if (next == pinned.begin()) return false;
  auto found = std::prev(next);
  return static_cast<const char*>(data) < found->first + found->second;
}

// ---------------------------------------------------------------------------------- streams, events, hooks

struct Event {
  MomentPtr moment;  // null until it is recorded
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kDevice;
  }
  c10::Device exchangeDevice(c10::Device) const override {
    return c10::Device(kDevice, 0);
  }
  c10::Device getDevice() const override {
    return c10::Device(kDevice, 0);
  }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, 0), current_stream);
  }
  c10::Stream getDefaultStream(c10::Device) const override {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, 0), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device, int) const override {
    static std::atomic<int> made{0};
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, 0), 1 + made++ % (kStreams - 1));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    auto before = getStream(stream.device());
    current_stream = static_cast<int>(stream.id());
    return before;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    auto& w = world();
    forked_is_an_error("an event");
    TORCH_CHECK(!w.capturing, "virtual device: an event was recorded while a graph is captured");
    if (*event == nullptr) *event = new Event();
    std::lock_guard<std::mutex> guard(w.lock);
    static_cast<Event*>(*event)->moment = mark(static_cast<int>(stream.id()), now());
    w.events += 1;
  }
  void block(void* event, const c10::Stream& stream) const override {
    auto* one = static_cast<Event*>(event);
    if (one == nullptr || one->moment == nullptr) return;
    std::lock_guard<std::mutex> guard(world().lock);
    wait_for(static_cast<int>(stream.id()), one->moment);
  }
  bool queryEvent(void* event) const override {
    auto& w = world();
    TORCH_CHECK(!w.capturing, "virtual device: an event was queried while a graph is captured");
    w.queries += 1;
    auto* one = static_cast<Event*>(event);
    return one == nullptr || one->moment == nullptr || passed(one->moment, w.late_ns);
  }
  void synchronizeEvent(void* event) const override {
    auto* one = static_cast<Event*>(event);
    if (one != nullptr && one->moment != nullptr) wait_for_moment(one->moment);
  }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    auto* a = static_cast<Event*>(first);
    auto* b = static_cast<Event*>(second);
    TORCH_CHECK(a && b && a->moment && b->moment, "virtual device: both events must be recorded");
    TORCH_CHECK(passed(a->moment, 0) && passed(b->moment, 0), "virtual device: both events must be completed");
    return static_cast<double>(b->moment->when - a->moment->when) / 1e6;
  }
  bool queryStream(const c10::Stream& stream) const override {
    TORCH_CHECK(!world().capturing, "virtual device: a stream was queried while a graph is captured");
    std::unique_lock<std::mutex> guard(world().lock);
    progress();
    auto id = static_cast<int>(stream.id());
    return at_rest(id) && now() >= world().busy[id];
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    wait_for_stream(static_cast<int>(stream.id()));
  }
  void synchronizeDevice(const c10::DeviceIndex) const override {
    synchronize();
  }
  bool isStreamCapturing(const c10::Stream&) const override {
    return world().capturing;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return 1;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return 1;
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return 0;
  }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override {
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override {
    return 0;
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::globalContext().defaultGenerator(c10::Device(c10::DeviceType::CPU));
  }
  at::Device getDeviceFromPtr(void*) const override {
    return c10::Device(kDevice, 0);
  }
  bool isPinnedPtr(const void* data) const override {
    return is_pinned(data);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return &pinned_allocator;
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    auto data = device_allocator.allocate(size);
    std::memcpy(data.get(), storage.data(), std::min(size, storage.nbytes()));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(data));
    storage.unsafeGetStorageImpl()->set_nbytes(size);
  }
};

// --------------------------------------------------------------------------------------------- operators

// The same bytes under another device; the new storage keeps the old one alive.
c10::Storage other_side(const c10::Storage& storage, c10::Device device, c10::Allocator* allocator) {
  auto* kept = new c10::Storage(storage);
  auto drop = [](void* one) { delete static_cast<c10::Storage*>(one); };
  auto drop_counted = [](void* one) {
    world().allocated -= static_cast<int64_t>(static_cast<c10::Storage*>(one)->nbytes());
    delete static_cast<c10::Storage*>(one);
  };
  bool ours = device.type() == kDevice;
  if (ours) {  // what an operator returned is the device's memory
    auto& w = world();
    w.allocated += static_cast<int64_t>(storage.nbytes());
    w.peak = std::max<int64_t>(w.peak, w.allocated);
  }
  c10::DataPtr data(
      const_cast<void*>(storage.data()), kept, ours ? static_cast<c10::DeleterFnPtr>(drop_counted) : drop, device);
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), storage.nbytes(), std::move(data), allocator, allocator != nullptr));
}

at::Tensor over(const c10::Storage& storage, const at::Tensor& like, c10::DispatchKey key) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(key), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.is_conj()) made._set_conj(true);
  if (like.is_neg()) made._set_neg(true);
  return made;
}

// What one call borrows: the host tensors over the device's bytes, and the way back.
struct Borrowed {
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;  // on the device, on the host
  std::unordered_map<c10::StorageImpl*, c10::Storage> hosts;
  std::unordered_map<c10::StorageImpl*, c10::Storage> devices;

  at::Tensor host(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kDevice) return tensor;
    auto* key = tensor.storage().unsafeGetStorageImpl();
    auto found = hosts.find(key);
    if (found == hosts.end()) {
      auto made = other_side(tensor.storage(), c10::Device(c10::DeviceType::CPU), c10::GetCPUAllocator());
      devices.emplace(made.unsafeGetStorageImpl(), tensor.storage());
      found = hosts.emplace(key, std::move(made)).first;
    }
    auto made = over(found->second, tensor, c10::DispatchKey::CPU);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
    pairs.emplace_back(tensor, made);
    return made;
  }

  at::Tensor device(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != c10::DeviceType::CPU) return tensor;
    for (auto& [ours, theirs] : pairs) {
      if (theirs.is_same(tensor)) return ours;
    }
    auto* key = tensor.storage().unsafeGetStorageImpl();
    auto found = devices.find(key);
    if (found == devices.end()) {
      auto made = other_side(tensor.storage(), c10::Device(kDevice, 0), &device_allocator);
      found = devices.emplace(key, std::move(made)).first;
    }
    return over(found->second, tensor, c10::DispatchKey::PrivateUse1);
  }

  // An `out=` that had to grow has other bytes now.
  void give_back() {
    for (auto& [ours, theirs] : pairs) {
      auto* host = theirs.storage().unsafeGetStorageImpl();
      bool moved = host->data() != ours.storage().data() || theirs.sizes() != ours.sizes() ||
          theirs.strides() != ours.strides();
      if (!moved) continue;
      auto* impl = ours.unsafeGetTensorImpl();
      if (host->data() != ours.storage().data()) {
        impl->set_storage_keep_dtype(other_side(theirs.storage(), c10::Device(kDevice, 0), &device_allocator));
      }
      impl->set_sizes_and_strides(theirs.sizes(), theirs.strides(), theirs.storage_offset());
    }
  }
};

const std::set<std::string>& waiting_operators() {
  static const std::set<std::string> names{
      "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_consecutive", "aten::unique_dim",
      "aten::equal", "aten::is_nonzero", "aten::_unique"};
  return names;
}

bool is_view(const c10::FunctionSchema& schema) {
  if (schema.returns().empty()) return false;
  for (const auto& one : schema.returns()) {
    if (one.alias_info() == nullptr || one.alias_info()->isWrite()) return false;
  }
  return true;
}

double cost_of(const std::string& name) {
  auto& w = world();
  std::lock_guard<std::mutex> guard(w.lock);
  auto found = w.costs.find(name);
  return found == w.costs.end() ? w.kernel_ns : found->second;
}

bool picks_by_mask(const std::string& name, const c10::IValue& value) {
  if (name.rfind("aten::index", 0) != 0 && name.rfind("aten::_index_put", 0) != 0) return false;
  if (!value.isList()) return false;
  for (const c10::IValue& one : value.toListRef()) {
    if (!one.isTensor()) continue;
    auto type = one.toTensor().scalar_type();
    if (type == at::kBool || type == at::kByte) return true;
  }
  return false;
}

void give_again(const at::Tensor& known, const at::Tensor& fresh) {
  if (known.defined() && fresh.defined() && known.data_ptr() != fresh.data_ptr()) known.copy_(fresh);
}

// An operator of a graph: the same inputs, and what it makes goes where the capture put it.
void again(
    const c10::OperatorHandle& op, const std::vector<c10::IValue>& given, const std::vector<c10::IValue>& made) {
  torch::jit::Stack stack(given.begin(), given.end());
  op.callBoxed(&stack);
  for (size_t i = 0; i < made.size(); ++i) {
    if (made[i].isTensor()) {
      give_again(made[i].toTensor(), stack[i].toTensor());
    } else if (made[i].isTensorList()) {
      auto known = made[i].toTensorVector(), fresh = stack[i].toTensorVector();
      for (size_t k = 0; k < known.size(); ++k) give_again(known[k], fresh[k]);
    }
  }
}

void on_host(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto& name = schema.name();
  Borrowed borrowed;
  auto arguments = torch::jit::last(stack, schema.arguments().size());
  bool waits = waiting_operators().count(name) > 0;
  int64_t many = 1;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto& slot = (*stack)[stack->size() - schema.arguments().size() + i];
    waits = waits || picks_by_mask(name, slot);
    if (slot.isTensor()) {
      slot = borrowed.host(slot.toTensor());
    } else if (slot.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& one : slot.toTensorVector()) list.push_back(borrowed.host(one));
      many = std::max<int64_t>(many, (static_cast<int64_t>(list.size()) + 31) / 32);  // so many to a kernel
      slot = list;
    } else if (slot.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& one : slot.toOptionalTensorVector()) {
        list.push_back(one.has_value() ? std::optional<at::Tensor>(borrowed.host(*one)) : std::nullopt);
      }
      slot = list;
    } else if (slot.isDevice()) {
      if (slot.toDevice().type() == kDevice) slot = c10::Device(c10::DeviceType::CPU);
    } else if (slot.isGenerator()) {
      slot = c10::IValue();
    }
  }
  bool view = is_view(schema);
  if (waits) wait_for_stream(current_stream);
  bool captures = world().capturing && !view;
  std::vector<c10::IValue> given;
  if (captures) given.assign(stack->end() - schema.arguments().size(), stack->end());
  op.callBoxed(stack);
  if (captures) {
    std::vector<c10::IValue> made(stack->end() - schema.returns().size(), stack->end());
    recorded.push_back([op, given = std::move(given), made = std::move(made)] { again(op, given, made); });
  }
  if (!view) {
    for (int64_t i = 0; i < many; ++i) launch(cost_of(name), 0);
  }
  if (waits) wait_for_stream(current_stream);
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    auto& slot = (*stack)[stack->size() - schema.returns().size() + i];
    if (slot.isTensor()) {
      slot = borrowed.device(slot.toTensor());
    } else if (slot.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& one : slot.toTensorVector()) list.push_back(borrowed.device(one));
      slot = list;
    }
  }
  borrowed.give_back();
}

at::Tensor empty(
    c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device>,
    std::optional<bool>, std::optional<at::MemoryFormat> format) {
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_generic(
      C10_AS_INTARRAYREF_SLOW(size), &device_allocator, keys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &device_allocator, keys,
      c10::dtype_or_default(dtype));
}

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat>) {
  self.unsafeGetTensorImpl()->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
  auto needed = static_cast<size_t>(self.numel() + self.storage_offset()) * self.element_size();
  if (needed > self.storage().nbytes()) at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), needed);
  return self;
}

// Copies between the sides: from pageable memory, and to the host, the host waits for all that came before.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  Borrowed borrowed;
  bool from_host = self.device().type() != kDevice, to_host = target.device().type() != kDevice;
  bool crosses = from_host || to_host;
  auto bytes = static_cast<double>(target.nbytes());
  double seconds_ns = crosses ? bytes / world().bandwidth * 1e9 + 3'000 : cost_of("aten::copy_");
  launch(seconds_ns, crosses ? kCopy : kKernel);
  auto to = borrowed.host(target), from = borrowed.host(self);
  to.copy_(from);
  if (world().capturing) recorded.push_back([to, from] { to.copy_(from); });
  if (crosses) {
    const auto& outside = from_host ? self : target;
    bool free = non_blocking && is_pinned(outside.storage().data());
    // On CUDA a non-blocking copy from pageable memory is staged: the host waits for the copy all the same.
    if (!free) wait_for_stream(current_stream);
  }
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  target.resize_(self.sizes());
  return copy_from(self, target, false);
}

at::Scalar read(const at::Tensor& self) {
  launch(self.element_size() / world().bandwidth * 1e9 + 3'000, 1);
  wait_for_stream(current_stream);
  Borrowed borrowed;
  return at::_local_scalar_dense(borrowed.host(self));
}

at::Tensor set_storage(
    at::Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(source);
  impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), offset.expect_int());
  return self;
}

at::Tensor& set_from_storage(at::Tensor& self, at::Storage source) {
  auto count = static_cast<int64_t>(source.nbytes() / self.element_size());
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_sizes_and_strides(at::IntArrayRef{count}, at::IntArrayRef{1}, 0);
  return self;
}

at::Tensor& set_from_storage_part(
    at::Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  set_storage(self, std::move(source), std::move(offset), size, stride);
  return self;
}

at::Tensor& set_from_tensor(at::Tensor& self, const at::Tensor& source) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(source.storage());
  impl->set_sizes_and_strides(source.sizes(), source.strides(), source.storage_offset());
  return self;
}

at::Tensor convolution(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
    int64_t groups) {
  Borrowed borrowed;
  std::optional<at::Tensor> host_bias;
  if (bias.has_value() && bias->defined()) host_bias = borrowed.host(*bias);
  auto made = at::convolution(
      borrowed.host(input), borrowed.host(weight), host_bias, stride, padding, dilation, transposed, output_padding,
      groups);
  launch(cost_of("aten::convolution"), kKernel);
  return borrowed.device(made);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> wanted) {
  Borrowed borrowed;
  auto sizes = transposed ? weight.size(1) * groups : weight.size(0);
  auto made = at::convolution_backward(
      borrowed.host(gradient), borrowed.host(input), borrowed.host(weight), at::IntArrayRef{sizes}, stride, padding,
      dilation, transposed, output_padding, groups, wanted);
  launch(cost_of("aten::convolution_backward"), 0);
  return {
      borrowed.device(std::get<0>(made)), borrowed.device(std::get<1>(made)), borrowed.device(std::get<2>(made))};
}

// A graph as torch.accelerator.Graph has it. Unlike a GPU's, its capture also computes, once; a replay is one launch
// of the host's and takes the device what all that was captured takes.
struct Graph final : at::GraphImplInterface {
  explicit Graph(const at::GraphImplArgs&) {}
  void capture_begin(at::MempoolId_t, at::GraphCaptureMode) override {
    auto& w = world();
    std::lock_guard<std::mutex> guard(w.lock);
    recorded.clear();
    w.captured_ns = 0;
    w.capturing = true;
  }
  void capture_end() override {
    auto& w = world();
    std::lock_guard<std::mutex> guard(w.lock);
    w.capturing = false;
    cost_ns = w.captured_ns;
    nodes = std::move(recorded);
    recorded.clear();
  }
  void instantiate() override {}
  void replay() override {
    at::AutoDispatchBelowADInplaceOrView below;
    launch(cost_ns, 0);
    for (const auto& node : nodes) node();
  }
  void reset() override {
    nodes.clear();
  }
  at::MempoolId_t pool() const override {
    return {0, 0};
  }
  void enable_debug_mode() override {}
  void debug_dump(const std::string&) override {}
  double cost_ns = 0;
  std::vector<std::function<void()>> nodes;
};

}  // namespace

namespace at {
REGISTER_GRAPH_IMPL(VGPU, Graph)  // the device's name, as `vgpu.py` gives it
}  // namespace at

namespace {

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("resize_", &resize_);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &read);
  m.impl("set_.source_Storage", &set_from_storage);
  m.impl("set_.source_Storage_storage_offset", &set_from_storage_part);
  m.impl("set_.source_Tensor", &set_from_tensor);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

// ------------------------------------------------------------------------------------------------ Python

pybind11::dict counters() {
  auto& w = world();
  std::lock_guard<std::mutex> guard(w.lock);
  pybind11::dict found;
  found["launches"] = w.launches.load();
  found["collectives"] = w.collectives.load();
  found["copies"] = w.copies.load();
  found["syncs"] = w.syncs.load();
  found["waits"] = static_cast<double>(w.waits_ns.load()) / 1e9;
  found["full"] = static_cast<double>(w.full_ns.load()) / 1e9;
  found["allocations"] = w.allocations.load();
  found["allocated"] = w.allocated.load();
  found["peak"] = w.peak.load();
  found["events"] = w.events.load();
  found["queries"] = w.queries.load();
  found["captured"] = w.captured.load();
  return found;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  m.def("synchronize", &synchronize, pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("counters", &counters);
  m.def("is_capturing", [] { return world().capturing.load(); });
  m.def("now", [] { return static_cast<double>(now()) / 1e9; });
  m.def("set_cost", [](const std::string& name, double seconds) {
    std::lock_guard<std::mutex> guard(world().lock);
    world().costs[name] = seconds * 1e9;
  });
  m.def("set_kernel", [](double seconds) { world().kernel_ns = seconds * 1e9; });
  m.def("set_launch", [](double seconds) { world().launch_ns = seconds * 1e9; });
  m.def("set_depth", [](size_t depth) { world().depth = depth; });
  m.def("set_bandwidth", [](double rate) { world().bandwidth = rate; });
  m.def("set_link", [](double rate, double latency) {
    world().link = rate;
    world().latency_ns = latency * 1e9;
  });
  m.def("group", &make_group);
  m.def("set_late", [](double seconds) { world().late_ns = seconds * 1e9; });
  m.def("set_capturing", [](bool on) {
    std::lock_guard<std::mutex> guard(world().lock);
    if (on) world().captured_ns = 0;
    world().capturing = on;
    return world().captured_ns / 1e9;  // what the graph would take
  });
  m.def("work", [](double seconds, int kind) { launch(seconds * 1e9, kind); },
        pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("keep_spans", [](bool on) {
    std::lock_guard<std::mutex> guard(world().lock);
    world().keep_spans = on;
    world().spans.clear();
  });
  m.def("spans", [] {
    std::lock_guard<std::mutex> guard(world().lock);
    std::vector<std::tuple<double, double, int, int>> found;
    for (const auto& one : world().spans) {
      found.emplace_back(one.start / 1e9, one.end / 1e9, one.stream, one.kind);
    }
    return found;
  });
}
