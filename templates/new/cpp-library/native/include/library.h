// The library for C and for all that can call C. Functions that may fail return NULL, or why they did, in static text.
#ifndef @NAME@_H
#define @NAME@_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct @ident@_summary @ident@_summary;

// NULL where there is no memory.
@ident@_summary *@ident@_summary_new(void);
void @ident@_summary_free(@ident@_summary *summary);
// Threads may share a summary.
const char *@ident@_summary_add(@ident@_summary *summary, double value);
size_t @ident@_summary_count(const @ident@_summary *summary);
const char *@ident@_summary_mean(const @ident@_summary *summary, double *mean);
const char *@ident@_summary_median(const @ident@_summary *summary, double *median);

#ifdef __cplusplus
}
#endif

#endif
