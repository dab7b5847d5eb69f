#ifndef @NAME@_HPP
#define @NAME@_HPP

#include <cstddef>
#include <mutex>
#include <vector>

namespace @ident@ {

// Statistics of values that any number of threads add.
class Summary {
  public:
    // Throws std::invalid_argument if the value is not finite.
    void add(double value);
    std::size_t count() const;
    // Throw std::out_of_range if the summary is empty.
    double mean() const;
    double median() const;

  private:
    mutable std::mutex mutex;
    std::vector<double> values;
};

} // namespace @ident@

#endif
