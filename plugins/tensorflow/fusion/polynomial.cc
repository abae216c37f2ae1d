#include "plugins/tensorflow/fusion/polynomial.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace unihal::tensorflow {

Monomial operator*(const Monomial& a, const Monomial& b) {
  std::map<int, int> exponents(a.begin(), a.end());
  for (const auto& [atom, exponent] : b) exponents[atom] += exponent;
  Monomial result;
  for (const auto& entry : exponents) {
    if (entry.second != 0) result.push_back(entry);
  }
  return result;
}

void Polynomial::add(const Monomial& monomial, double factor) {
  const double sum = terms_[monomial] += factor;
  // What is left of terms that cancel but for the rounding of constants is no term.
  if (std::abs(sum) <= 1e-6 * std::abs(factor)) terms_.erase(monomial);
}

Polynomial Polynomial::operator+(const Polynomial& other) const {
  Polynomial result = *this;
  for (const auto& [monomial, factor] : other.terms_) result.add(monomial, factor);
  return result;
}

Polynomial Polynomial::operator*(const Polynomial& other) const {
  Polynomial result;
  for (const auto& [first, a] : terms_) {
    for (const auto& [second, b] : other.terms_) result.add(first * second, a * b);
  }
  return result;
}

bool Polynomial::reciprocal(Polynomial* result) const {
  if (terms_.size() != 1) return false;
  const auto& [monomial, factor] = *terms_.begin();
  Monomial inverse = monomial;
  for (auto& entry : inverse) entry.second = -entry.second;
  *result = Polynomial();
  result->add(inverse, 1 / factor);
  return true;
}

Polynomial Polynomial::with(int atom, double number) const {
  Polynomial result;
  for (const auto& [monomial, factor] : terms_) {
    Monomial rest;
    double product = factor;
    for (const auto& entry : monomial) {
      if (entry.first == atom) {
        product *= std::pow(number, entry.second);
      } else {
        rest.push_back(entry);
      }
    }
    result.add(rest, product);
  }
  return result;
}

bool Polynomial::equals(const Polynomial& other, double rounding) const {
  return std::equal(terms_.begin(), terms_.end(), other.terms_.begin(), other.terms_.end(),
                    [rounding](const auto& a, const auto& b) {
                      return a.first == b.first && std::abs(a.second - b.second) <= rounding * std::abs(b.second);
                    });
}

std::string Polynomial::text() const {
  std::string result;
  for (const auto& [monomial, factor] : terms_) {
    char number[32];
    std::snprintf(number, sizeof number, "%+.7g", factor);
    result += number;
    for (const auto& [atom, exponent] : monomial) {
      result += "*" + std::to_string(atom) + "^" + std::to_string(exponent);
    }
  }
  return result;
}

}  // namespace unihal::tensorflow
