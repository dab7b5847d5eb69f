// The C interface. Exceptions must not leave it.
#include "@ident@.h"
#include "@ident@.hpp"

#include <new>
#include <stdexcept>

struct @ident@_summary {
    @ident@::Summary summary;
};

namespace {

template <typename Action> const char *guarded(Action action) {
    try {
        action();
        return nullptr;
    } catch (const std::invalid_argument &) {
        return "not a finite number";
    } catch (const std::out_of_range &) {
        return "no values";
    } catch (const std::bad_alloc &) {
        return "out of memory";
    } catch (...) {
        return "unknown error";
    }
}

} // namespace

@ident@_summary *@ident@_summary_new(void) {
    return new (std::nothrow) @ident@_summary;
}

void @ident@_summary_free(@ident@_summary *summary) {
    delete summary;
}

const char *@ident@_summary_add(@ident@_summary *summary, double value) {
    return guarded([&] { summary->summary.add(value); });
}

size_t @ident@_summary_count(const @ident@_summary *summary) {
    return summary->summary.count();
}

const char *@ident@_summary_mean(const @ident@_summary *summary, double *mean) {
    return guarded([&] { *mean = summary->summary.mean(); });
}

const char *@ident@_summary_median(const @ident@_summary *summary, double *median) {
    return guarded([&] { *median = summary->summary.median(); });
}
