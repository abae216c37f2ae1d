// Beside mma_instructions.h the products of four warps in prelude/matrix_product.h, as the PTX manual defines wgmma: a
// product is done when a batch is waited for, and not before; what lies in panels is read then.
#include <vector>

#include "mma_instructions.h"

namespace on_host {

struct PanelProduct {
  uhal_sum* sums;
  uhal_left left;
  uint32 left_tile, right_tile;  // left_tile: kInRegisters, or where the left factors of 64 rows lie
  int columns;
  bool across, is_first;
};
constexpr uint32 kInRegisters = ~0u;
constexpr int kPanel = 64;

// What a work-item has asked for.
struct PanelProducts {
  std::vector<std::vector<PanelProduct>> batches;  // the last is not committed
  bool has_begun = false;
};
inline std::vector<PanelProducts> products;

inline PanelProducts& own_products() {
  if (products.size() != items.size()) products = std::vector<PanelProducts>(items.size());
  PanelProducts& own = products[running];
  if (own.batches.empty()) own.batches.emplace_back();
  return own;
}

// Of a matrix in a panel: rows of 128 bytes, of which bits 4 to 6 of an address have been combined with bits 7 to 9.
inline float panel_element(uint32 tile, int row, int column) {
  const uint32 address = tile + row * 128 + column * 2;
  return uhal_element_of(local_element(address ^ (address >> 3 & 0x70)), 0);
}

inline void perform(const PanelProduct& product) {
  Warp& own = warp();
  const int item = lane();
  for (int i = 0; i < 4; ++i) own.words[item][i] = product.left.pairs[i];
  sync_warp();
  const int first = running / kLanes % 4 * 16;
  for (int n = 0; n < product.columns / 16; ++n) {
    for (int i = 0; i < 8; ++i) {
      const int row = uhal_sum_row(item, i);
      const int column = n * 16 + uhal_sum_column(item, i);
      float total = product.is_first ? 0 : product.sums[n].elements[i];
      for (int k = 0; k < 16; ++k) {
        const float left = product.left_tile == kInRegisters
                               ? uhal_element_of(own.words[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2)
                               : panel_element(product.left_tile, first + row, k);
        total += left * (product.across ? panel_element(product.right_tile, k, column)
                                        : panel_element(product.right_tile, column, k));
      }
      product.sums[n].elements[i] = total;
    }
  }
  sync_warp();
}

inline void ask(const PanelProduct& product) {
  PanelProducts& own = own_products();
  require(own.has_begun, "wgmma: there is no fence before it");
  require(product.right_tile % 16 == 0, "wgmma: an address is not a multiple of 16");
  own.batches.back().push_back(product);
}

}  // namespace on_host

static void uhal_add_panel_product_across(uhal_sum* sums, const uhal_left* a, uhal_tile right) {
  on_host::ask({sums, *a, on_host::kInRegisters, right, on_host::kPanel, true, false});
}
static void uhal_add_panel_product(uhal_sum* sums, uhal_tile left, uhal_tile right, int32 is_first) {
  on_host::ask({sums, {}, left, right, UHAL_PRODUCT_COLUMNS, false, is_first != 0});
}
static void uhal_begin_products() { on_host::own_products().has_begun = true; }
static void uhal_commit_products() {
  on_host::PanelProducts& own = on_host::own_products();
  own.has_begun = false;
  own.batches.emplace_back();
}
static void uhal_await_products(int pending) {
  on_host::PanelProducts& own = on_host::own_products();
  on_host::require(own.batches.back().empty(), "wgmma: products are waited for that were not committed");
  while (static_cast<int>(own.batches.size()) > pending + 1) {
    for (const on_host::PanelProduct& product : own.batches.front()) on_host::perform(product);
    own.batches.erase(own.batches.begin());
  }
}
static void uhal_settle_sums(uhal_sum*) {}
