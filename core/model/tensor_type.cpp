// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/tensor_type.h"

namespace spanscope {
namespace {

constexpr StoredType kStored[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
};

// [TensorType] the number in files, in the order of the enumeration.
constexpr uint32_t kNumbers[kTensorTypeCount] = {0, 1, 30, 8, 2, 3, 6, 7, 20, 39, 10, 11, 12, 13, 14, 23};

constexpr const StoredType* find(uint32_t number) {
  for (const StoredType& row : kStored)
    if (row.number == number) return &row;
  return nullptr;
}

struct Rows {
  StoredType of[kTensorTypeCount];  // [TensorType]
};
constexpr Rows kRows = [] {
  Rows rows{};
  for (uint32_t i = 0; i < kTensorTypeCount; ++i) rows.of[i] = *find(kNumbers[i]);
  return rows;
}();

const StoredType& row(TensorType type) { return kRows.of[size_t(type)]; }

}  // namespace

const char* tensor_type_name(TensorType type) { return row(type).name; }
uint32_t block_elements(TensorType type) { return row(type).elements; }
uint32_t block_bytes(TensorType type) { return row(type).bytes; }
uint64_t row_bytes(TensorType type, uint64_t cols) { return cols / block_elements(type) * block_bytes(type); }

const StoredType* stored_type(uint32_t number) { return find(number); }

std::optional<TensorType> tensor_type_from_ggml(uint32_t number) {
  for (TensorType type : kTensorTypes)
    if (kNumbers[size_t(type)] == number) return type;
  return {};
}

uint32_t ggml_number(TensorType type) { return kNumbers[size_t(type)]; }

std::string supported_tensor_types() {
  std::string out;
  for (TensorType type : kTensorTypes) out += (out.empty() ? "" : ", ") + std::string(tensor_type_name(type));
  return out;
}

}  // namespace spanscope
