// What TensorFlow's shape inference knows of a graph's tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorflow/c/experimental/grappler/grappler.h"

namespace unihal::tensorflow {

class OutputShapes {
 public:
  // The item outlives this.
  explicit OutputShapes(const TF_GrapplerItem* item) : item_(item) {}
  ~OutputShapes();
  OutputShapes(const OutputShapes&) = delete;
  OutputShapes& operator=(const OutputShapes&) = delete;

  // The shape of a node's output as text, such as "[8,-3,5]": shapes of one text are equal. Negative numbers stand for
  // sizes that are not known, equal ones for the same size. Empty where too little is known, or for a node that was not
  // in the graph at first. Shapes are inferred at the first call.
  std::string of(std::string_view node, int port);

 private:
  void infer();

  const TF_GrapplerItem* item_;
  TF_GraphProperties* properties_ = nullptr;
  bool inferred_ = false;
};

// The sizes that such a text stands for; nullopt where the rank is not known.
std::optional<std::vector<int64_t>> sizes_of(const std::string& text);

}  // namespace unihal::tensorflow
