// The C interface of the library. Functions that can fail return NULL, or an error message in static memory.
#ifndef @NAME@_H
#define @NAME@_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct @ident@_summary @ident@_summary;

// Returns NULL if out of memory.
@ident@_summary *@ident@_summary_new(void);
void @ident@_summary_free(@ident@_summary *summary);
// A summary can be shared between threads.
const char *@ident@_summary_add(@ident@_summary *summary, double value);
size_t @ident@_summary_count(const @ident@_summary *summary);
const char *@ident@_summary_mean(const @ident@_summary *summary, double *mean);
const char *@ident@_summary_median(const @ident@_summary *summary, double *median);

#ifdef __cplusplus
}
#endif

#endif
