/* The OpenCL loader (ICD loader), opened at run time. Nothing here links to it. */
#ifndef GKCL_LOADER_H
#define GKCL_LOADER_H

#include "cl.h"
#include "gk_internal.h"

typedef struct gkcl_api {
    void *library;
#define GKCL_MEMBER(result, name, arguments) gkcl_fn_##name name;
    GKCL_FUNCTIONS(GKCL_MEMBER)
#undef GKCL_MEMBER
} gkcl_api;

/* Opens the loader and finds its functions. On failure nothing is left open, and `why` has one line. */
gk_status gkcl_api_open(gkcl_api *, char *why, size_t why_capacity);
void gkcl_api_close(gkcl_api *);

/* "CL_OUT_OF_RESOURCES"; never NULL. */
const char *gkcl_result_text(cl_int);
gk_status gkcl_status_of(cl_int);

#endif
