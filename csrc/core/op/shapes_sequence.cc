// Rules of recurrent layers and of losses over sequences.
#include <algorithm>
#include <cmath>

#include "csrc/core/op/checks.h"
#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

// The parts of a gate's operand and of a reserve, H wide each (op.h).
int64_t gates_of(uhal_rnn_mode mode) { return mode == UHAL_RNN_LSTM ? 4 : mode == UHAL_RNN_GRU ? 3 : 1; }
int64_t reserved_of(uhal_rnn_mode mode) { return mode == UHAL_RNN_LSTM ? 5 : 4; }

struct RnnShapes {
  Shape gates, r, states, y, reserve, bias, lengths;
};

// The shapes that r and `y`, (D, T, B, H), ask of the other operands.
uhal_status rnn_shapes(const OpView& op, const uhal_tensor& y, RnnShapes* shapes) {
  const auto& attributes = op.attributes_as<uhal_rnn_attributes>();
  const uhal_tensor& r = *op.input(1);
  UHAL_EXPECT(expect_attribute(op, "mode", attributes.mode, UHAL_RNN_LSTM, UHAL_RNN_RELU));
  UHAL_EXPECT(expect_math_mode(op, attributes.math_mode));
  if (!(attributes.cell_clip >= 0) || std::isinf(attributes.cell_clip)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "%s: the attribute cell_clip is %g, expected 0 or a positive finite number.", op.row->name,
                     attributes.cell_clip);
  }
  UHAL_EXPECT(expect_dtype(op, &r, is_floating(r.dtype), "a floating dtype"));
  UHAL_EXPECT(expect_rank(op, &y, 4, 4, "(D, T, B, H)"));
  UHAL_EXPECT(expect_rank(op, &r, 3, 3, "(D, G H, H)"));
  const int64_t directions = y.shape[0], batch = y.shape[2];
  const int64_t hidden = std::min(y.shape[3], INT64_MAX / 8);  // so that no multiple leaves the range
  if (directions < 1 || directions > UHAL_RNN_MAX_DIRECTIONS) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: there are %lld directions, expected 1 to %d.", op.row->name,
                     static_cast<long long>(directions), UHAL_RNN_MAX_DIRECTIONS);
  }
  UHAL_EXPECT(expect_attribute(op, "reverse", attributes.reverse, 0, (int64_t{1} << directions) - 1));
  const int64_t width = gates_of(attributes.mode) * hidden;
  shapes->gates = {directions, y.shape[1], batch, width};
  shapes->r = {directions, width, hidden};
  shapes->states = {directions, batch, hidden};
  shapes->y = Shape(y);
  shapes->reserve = {directions, y.shape[1], batch, reserved_of(attributes.mode) * hidden};
  shapes->bias = {directions, width};
  shapes->lengths = {batch};
  return expect_shape(op, &r, shapes->r, "(D, G H, H): G is 4 of an LSTM, 3 of a GRU, else 1");
}

// An operand of one shape and of r's dtype.
uhal_status check_rnn_operand(const OpView& op, const uhal_tensor* operand, const Shape& shape, const char* meaning) {
  UHAL_EXPECT(expect_same_dtype(op, operand, op.input(1)));
  return expect_shape(op, operand, shape, meaning);
}

uhal_status check_lengths(const OpView& op, const uhal_tensor* lengths, const Shape& shape) {
  if (lengths == nullptr) return UHAL_OK;
  UHAL_EXPECT(expect_dtype(op, lengths, is_index(lengths->dtype), "int32 or int64"));
  return expect_shape(op, lengths, shape, "a length for each sequence");
}

uhal_status expect_absent(const OpView& op, const uhal_tensor* operand, bool allowed, const char* whose) {
  if (operand == nullptr || allowed) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %s was given, which is %s only.", op.row->name,
                   operand_name(op, operand), whose);
}

constexpr char kStates[] = "(D, B, H)";
constexpr char kGates[] = "(D, T, B, G H): G is 4 of an LSTM, 3 of a GRU, else 1";
constexpr char kSteps[] = "(D, T, B, H)";
constexpr char kReserve[] = "(D, T, B, K H): K is 5 of an LSTM, 4 of a GRU";
constexpr char kOfLstm[] = "an LSTM's";
constexpr char kOfGru[] = "a GRU's";
constexpr char kOfGated[] = "an LSTM's or a GRU's";

}  // namespace

uhal_status check_rnn(const OpView& op) {
  const uhal_rnn_mode mode = op.attributes_as<uhal_rnn_attributes>().mode;
  const bool is_lstm = mode == UHAL_RNN_LSTM;
  RnnShapes shapes;
  UHAL_EXPECT(rnn_shapes(op, *op.output(0), &shapes));
  UHAL_EXPECT(check_rnn_operand(op, op.output(0), shapes.y, kSteps));
  UHAL_EXPECT(check_rnn_operand(op, op.input(0), shapes.gates, kGates));
  UHAL_EXPECT(check_rnn_operand(op, op.input(2), shapes.states, kStates));
  UHAL_EXPECT(expect_absent(op, op.input(3), is_lstm, kOfLstm));
  UHAL_EXPECT(check_rnn_operand(op, op.input(3), shapes.states, kStates));
  UHAL_EXPECT(check_rnn_operand(op, op.input(4), shapes.bias, "(D, G H)"));
  UHAL_EXPECT(check_lengths(op, op.input(5), shapes.lengths));
  UHAL_EXPECT(expect_absent(op, op.output(1), is_lstm, kOfLstm));
  UHAL_EXPECT(check_rnn_operand(op, op.output(1), shapes.states, kStates));
  UHAL_EXPECT(expect_absent(op, op.output(2), is_lstm || mode == UHAL_RNN_GRU, kOfGated));
  return check_rnn_operand(op, op.output(2), shapes.reserve, kReserve);
}

uhal_status check_rnn_backward(const OpView& op) {
  const uhal_rnn_mode mode = op.attributes_as<uhal_rnn_attributes>().mode;
  const bool is_lstm = mode == UHAL_RNN_LSTM, is_gru = mode == UHAL_RNN_GRU;
  RnnShapes shapes;
  UHAL_EXPECT(rnn_shapes(op, *op.input(0), &shapes));
  UHAL_EXPECT(check_rnn_operand(op, op.input(0), shapes.y, kSteps));
  UHAL_EXPECT(check_rnn_operand(op, op.input(2), shapes.y, kSteps));
  if (is_lstm || is_gru) UHAL_EXPECT(expect_present(op, op.input(3), "reserve", "for an LSTM or a GRU"));
  UHAL_EXPECT(expect_absent(op, op.input(3), is_lstm || is_gru, kOfGated));
  UHAL_EXPECT(check_rnn_operand(op, op.input(3), shapes.reserve, kReserve));
  UHAL_EXPECT(expect_absent(op, op.input(4), is_lstm || is_gru, kOfGated));
  UHAL_EXPECT(check_rnn_operand(op, op.input(4), shapes.states, kStates));
  UHAL_EXPECT(check_lengths(op, op.input(5), shapes.lengths));
  UHAL_EXPECT(check_rnn_operand(op, op.input(6), shapes.states, kStates));
  UHAL_EXPECT(expect_absent(op, op.input(7), is_lstm, kOfLstm));
  UHAL_EXPECT(check_rnn_operand(op, op.input(7), shapes.states, kStates));
  UHAL_EXPECT(check_rnn_operand(op, op.output(0), shapes.gates, kGates));
  if (is_gru) UHAL_EXPECT(expect_present(op, op.output(1), "dproduct", "for a GRU"));
  UHAL_EXPECT(expect_absent(op, op.output(1), is_gru, kOfGru));
  UHAL_EXPECT(check_rnn_operand(op, op.output(1), shapes.gates, kGates));
  UHAL_EXPECT(check_rnn_operand(op, op.output(2), shapes.states, kStates));
  UHAL_EXPECT(expect_absent(op, op.output(3), is_lstm, kOfLstm));
  return check_rnn_operand(op, op.output(3), shapes.states, kStates);
}

uhal_status check_ctc_loss(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_ctc_attributes>();
  const uhal_tensor& logits = *op.input(0);
  const uhal_tensor& labels = *op.input(1);
  UHAL_EXPECT(expect_rank(op, &logits, 3, 3, "(T, B, C)"));
  UHAL_EXPECT(expect_rank(op, &labels, 2, 2, "(B, L)"));
  UHAL_EXPECT(expect_dtype(op, &logits, is_floating(logits.dtype), "a floating dtype"));
  UHAL_EXPECT(expect_dtype(op, &labels, is_index(labels.dtype), "int32 or int64"));
  UHAL_EXPECT(expect_attribute(op, "blank", attributes.blank, 0, logits.shape[2] - 1));
  UHAL_EXPECT(expect_attribute(op, "zero_infinity", attributes.zero_infinity, 0, 1));
  const int64_t batch = logits.shape[1];
  UHAL_EXPECT(expect_shape(op, &labels, {batch, labels.shape[1]}, "a row of labels for each sequence"));
  UHAL_EXPECT(check_lengths(op, op.input(2), {batch}));
  UHAL_EXPECT(check_lengths(op, op.input(3), {batch}));
  UHAL_EXPECT(expect_same_dtype(op, op.output(0), &logits));
  UHAL_EXPECT(expect_shape(op, op.output(0), {batch}, "a loss for each sequence"));
  UHAL_EXPECT(expect_same_dtype(op, op.output(1), &logits));
  return expect_same_shape(op, op.output(1), &logits);
}

}  // namespace unihal::core
