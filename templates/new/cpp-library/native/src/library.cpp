#include "@ident@.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace @ident@ {

void Summary::add(double value) {
    if (!std::isfinite(value)) {
        throw std::invalid_argument("not a finite number");
    }
    std::lock_guard<std::mutex> lock(mutex);
    values.push_back(value);
}

std::size_t Summary::count() const {
    std::lock_guard<std::mutex> lock(mutex);
    return values.size();
}

double Summary::mean() const {
    std::lock_guard<std::mutex> lock(mutex);
    if (values.empty()) {
        throw std::out_of_range("no values");
    }
    double mean = 0;
    std::size_t seen = 0;
    for (double value : values) {
        seen += 1;
        mean += (value - mean) / static_cast<double>(seen);
    }
    return mean;
}

double Summary::median() const {
    std::lock_guard<std::mutex> lock(mutex);
    if (values.empty()) {
        throw std::out_of_range("no values");
    }
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : sorted[half - 1] / 2 + sorted[half] / 2;
}

} // namespace @ident@
