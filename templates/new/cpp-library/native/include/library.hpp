#ifndef @NAME@_HPP
#define @NAME@_HPP

#include <cstddef>
#include <mutex>
#include <vector>

namespace @ident@ {

// Values that are added one by one, by any number of threads, and what they are like.
class Summary {
  public:
    // Throws std::invalid_argument for what is not a finite number.
    void add(double value);
    std::size_t count() const;
    // These throw std::out_of_range while there is no value.
    double mean() const;
    double median() const;

  private:
    mutable std::mutex mutex;
    std::vector<double> values;
};

} // namespace @ident@

#endif
