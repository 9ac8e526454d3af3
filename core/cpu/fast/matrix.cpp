// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/matrix.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "core/cpu/fast/buffer.h"
#include "core/cpu/fast/few_row_kernels.h"

namespace spanscope::fast {
namespace {

// Debian's oneDNN runs on OpenMP; the number of threads is a setting of the calling thread. Looked up at run
// time, so that a oneDNN built on another runtime needs nothing from OpenMP.
struct OpenMp {
  void (*set)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  int (*get)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
};
const OpenMp& open_mp() {
  static const OpenMp functions;
  return functions;
}

constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr uint32_t kPanelUnit = 64,
                   kPanelMost =
                       256;  // outputs; measured: 135 GFLOP/s a thread up to 256 x 1,536, half beyond
constexpr uint32_t kFewRowItem = 32;  // outputs of one work item of a few-row product

dnnl::memory::desc dense(uint32_t rows, uint32_t cols) {
  return {{rows, cols}, kF32, dnnl::memory::format_tag::ab};
}

}  // namespace

OneThread::OneThread() {
  if (!open_mp().set || !open_mp().get) return;
  before_ = open_mp().get();
  open_mp().set(1);
}
OneThread::~OneThread() {
  if (before_ > 0) open_mp().set(before_);
}

struct Matrices::Impl {
  struct Panel {
    uint32_t first = 0, count = 0;  // outputs
    dnnl::memory weights;           // packed
  };
  struct Packed {
    std::vector<Panel> panels;
    uint64_t bytes = 0;
    bool in_place = false;
  };
  // Rows, outputs, cols, and whether the weights lie as the file has them (f32, row after row) or packed. Both sides are
  // dense: with a strided output oneDNN 2.6 falls back to a plain loop, three thousand times slower.
  using Shape = std::tuple<uint32_t, uint32_t, uint32_t, bool>;
  struct Call {
    dnnl::matmul primitive;
    dnnl::memory::desc x, out;
    size_t scratch = 0;  // bytes
    dnnl::memory::desc scratch_desc;
    bool plain = false;  // oneDNN has only its plain loop for this shape with these packed weights
  };

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::map<const uint8_t*, Packed> packed;                              // by the stored data
  std::map<std::pair<uint32_t, uint32_t>, dnnl::memory::desc> layouts;  // by (cols, outputs of the panel)
  std::map<Shape, Call> calls;
  std::vector<dnnl::stream> streams;   // [thread]
  std::vector<Buffer> scratch, aside;  // [thread] oneDNN's scratchpad; one tile of output

  dnnl::matmul::primitive_desc describe(const Shape& shape, const dnnl::memory::desc& weights) {
    const auto& [rows, outputs, cols, in_place] = shape;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return {dnnl::matmul::desc(dense(rows, cols), weights, dense(rows, outputs)), attributes, engine};
  }

  // The layout that oneDNN likes best for full tiles of this shape; the other tiles use it too.
  const dnnl::memory::desc& layout(uint32_t cols, uint32_t outputs) {
    auto [at, fresh] = layouts.try_emplace({cols, outputs});
    if (fresh) {
      const dnnl::memory::desc any({cols, outputs}, kF32, dnnl::memory::format_tag::any);
      at->second = describe({kRowTile, outputs, cols, false}, any).weights_desc();
    }
    return at->second;
  }

  const Call& call(const Shape& shape) {
    auto at = calls.find(shape);
    if (at != calls.end()) return at->second;
    const auto& [rows, outputs, cols, in_place] = shape;
    const auto description = describe(shape, in_place ? as_stored(cols, outputs) : layout(cols, outputs));
    Call made{dnnl::matmul(description),     description.src_desc(),
              description.dst_desc(),        description.scratchpad_desc().get_size(),
              description.scratchpad_desc(), std::strncmp(description.impl_info_str(), "ref", 3) == 0};
    return calls.emplace(shape, std::move(made)).first->second;
  }

  // The most rows up to \p rows that oneDNN multiplies with a real kernel: the packed layout is made for full
  // tiles, and for some smaller ones it would fall back to a loop that is a thousand times slower. Depends on
  // the shape alone.
  uint32_t best_tile(uint32_t rows, uint32_t outputs, uint32_t cols, bool in_place) {
    for (uint32_t tile = rows; tile > kRowPadding; tile -= kRowPadding)
      if (!call({tile, outputs, cols, in_place}).plain) return tile;
    return kRowPadding;
  }

  // f32 weights are multiplied where the file has them: a copy would double the memory of an f32 model.
  // Not where oneDNN has only its plain loop for a shape as stored.
  bool fits_in_place(const WeightMatrix& w, uint32_t outputs) {
    return w.type == TensorType::f32 && reinterpret_cast<uintptr_t>(w.data) % alignof(float) == 0 &&
           !call({kRowTile, outputs, w.cols, true}).plain;
  }
  static dnnl::memory::desc as_stored(uint32_t cols, uint32_t outputs) {
    return {{cols, outputs}, kF32, dnnl::memory::format_tag::ba};
  }

  void pack(Team& team, const WeightMatrix& w) {
    if (packed.count(w.data)) return;
    Packed result;
    const uint32_t panels = (w.rows + kPanelMost - 1) / kPanelMost;
    const uint32_t width = (w.rows + panels * kPanelUnit - 1) / (panels * kPanelUnit) * kPanelUnit;
    bool stays = true;
    for (uint32_t first = 0; first < w.rows; first += width)
      stays = stays && fits_in_place(w, std::min(width, w.rows - first));
    result.in_place = stays;
    for (uint32_t first = 0; first < w.rows; first += width) {
      const uint32_t count = std::min(width, w.rows - first);
      if (stays) {
        result.panels.push_back(
            {first, count, dnnl::memory(as_stored(w.cols, count), engine, const_cast<uint8_t*>(w.row(first)))});
        continue;
      }
      Panel panel{first, count, dnnl::memory(layout(w.cols, count), engine)};
      result.bytes += panel.weights.get_desc().get_size();
      result.panels.push_back(std::move(panel));
    }
    if (stays) {
      packed.emplace(w.data, std::move(result));
      return;
    }
    team.for_each(result.panels.size(), [&](size_t item, unsigned thread) {
      OneThread one;
      Panel& panel = result.panels[item];
      std::vector<float> plain(size_t(panel.count) * w.cols);
      for (uint32_t o = 0; o < panel.count; ++o)
        dequantise_row(w, panel.first + o, plain.data() + size_t(o) * w.cols);
      dnnl::memory from({{w.cols, panel.count}, kF32, dnnl::memory::format_tag::ba}, engine, plain.data());
      dnnl::reorder(from, panel.weights).execute(streams[thread], from, panel.weights);
      streams[thread].wait();
    });
    packed.emplace(w.data, std::move(result));
  }
};

Matrices::Matrices(Team& team) : team_(team), impl_(std::make_unique<Impl>()) {
  for (unsigned t = 0; t < team.threads(); ++t) impl_->streams.emplace_back(impl_->engine);
  impl_->scratch.resize(team.threads());
  impl_->aside.resize(team.threads());
}
Matrices::~Matrices() = default;

uint64_t Matrices::packed_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [data, packed] : impl_->packed) bytes += packed.bytes;
  return bytes;
}

void Matrices::multiply(std::span<const Product> products, uint32_t rows) {
  if (rows <= kFewRows)
    few_rows(products, rows);
  else
    many_rows(products, rows);
}

void Matrices::few_rows(std::span<const Product> products, uint32_t rows) {
  struct Item {
    const Product* product;
    uint32_t first, count;
  };
  std::vector<Item> items;
  for (const Product& p : products)
    for (uint32_t first = 0; first < p.weights->rows; first += kFewRowItem)
      items.push_back({&p, first, std::min(kFewRowItem, p.weights->rows - first)});
  // Several items at once where there are many, so that handing them out costs nothing.
  const size_t group = std::clamp<size_t>(items.size() / (team_.threads() * 8), 1, 16);
  team_.for_each((items.size() + group - 1) / group, [&](size_t g, unsigned) {
    for (size_t i = g * group; i < std::min((g + 1) * group, items.size()); ++i) {
      const auto& [p, first, count] = items[i];
      for (uint32_t row = 0; row < rows; row += 4)
        few_row_product(*p->weights, first, count, p->x + size_t(row) * p->weights->cols, p->weights->cols,
                        std::min(4u, rows - row), p->out + row * p->out_stride + first, p->out_stride);
    }
  });
}

void Matrices::many_rows(std::span<const Product> products, uint32_t rows) {
  struct Item {
    const Product* product;
    const Impl::Panel* panel;
    const Impl::Call* call;
    uint32_t row, rows;
    bool aside;  // the result is made in a buffer and copied: padded rows, or a panel of a wider output
  };
  OneThread one;
  std::vector<Item> items;
  size_t scratch = 0;
  for (const Product& p : products) {
    impl_->pack(team_, *p.weights);
    const Impl::Packed& packed = impl_->packed.at(p.weights->data);
    for (const Impl::Panel& panel : packed.panels)
      for (uint32_t row = 0, left = 0; row < rows; row += left) {
        left = std::min(kRowTile, rows - row);
        const uint32_t wanted = (left + kRowPadding - 1) / kRowPadding * kRowPadding;
        const uint32_t tile = impl_->best_tile(wanted, panel.count, p.weights->cols, packed.in_place);
        left = std::min(left, tile);
        const Impl::Call& call = impl_->call({tile, panel.count, p.weights->cols, packed.in_place});
        scratch = std::max(scratch, call.scratch);
        items.push_back({&p, &panel, &call, row, left, tile != left || panel.count != p.out_stride});
      }
  }
  for (unsigned t = 0; t < team_.threads(); ++t) {
    impl_->scratch[t].need(scratch / sizeof(float) + 1);
    impl_->aside[t].need(size_t(kRowTile) * kPanelMost);
  }
  team_.for_each(items.size(), [&](size_t i, unsigned thread) {
    OneThread one_here;
    const Item& item = items[i];
    float* out = item.aside ? impl_->aside[thread].data()
                            : item.product->out + item.row * item.product->out_stride + item.panel->first;
    dnnl::memory x(item.call->x, impl_->engine,
                   const_cast<float*>(item.product->x + size_t(item.row) * item.product->weights->cols)),
        y(item.call->out, impl_->engine, out), w(item.panel->weights),
        pad(item.call->scratch_desc, impl_->engine, impl_->scratch[thread].data());
    item.call->primitive.execute(
        impl_->streams[thread],
        {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}, {DNNL_ARG_SCRATCHPAD, pad}});
    impl_->streams[thread].wait();
    if (item.aside)
      for (uint32_t r = 0; r < item.rows; ++r)
        std::memcpy(item.product->out + (item.row + r) * item.product->out_stride + item.panel->first,
                    out + size_t(r) * item.panel->count, item.panel->count * sizeof(float));
  });
}

}  // namespace spanscope::fast
