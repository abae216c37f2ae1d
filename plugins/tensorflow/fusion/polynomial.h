// Polynomials whose variables ("atoms") are numbers: the form in which the algebra of a graph is compared, so that it
// does not matter in which order TensorFlow's optimizers left products and sums.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace unihal::tensorflow {

// Atoms with their exponents, in the order of atoms; no exponent is 0.
using Monomial = std::vector<std::pair<int, int>>;

class Polynomial {
 public:
  Polynomial() = default;
  explicit Polynomial(double number) {
    if (number != 0) terms_[{}] = number;
  }
  static Polynomial atom(int atom, int exponent = 1) {
    Polynomial result;
    result.terms_[{{atom, exponent}}] = 1;
    return result;
  }

  const std::map<Monomial, double>& terms() const { return terms_; }
  void add(const Monomial& monomial, double factor);

  Polynomial operator+(const Polynomial& other) const;
  Polynomial operator-(const Polynomial& other) const { return *this + other * Polynomial(-1); }
  Polynomial operator*(const Polynomial& other) const;

  // The reciprocal of a single term; false for others.
  bool reciprocal(Polynomial* result) const;
  // With a number in the place of an atom.
  Polynomial with(int atom, double number) const;

  // Whether the factors are the same to the rounding of constants, of float32 where nothing else is said.
  bool equals(const Polynomial& other, double rounding = 1e-6) const;

  std::string text() const;

 private:
  std::map<Monomial, double> terms_;
};

Monomial operator*(const Monomial& a, const Monomial& b);

}  // namespace unihal::tensorflow
