#include "ggml-backend.h"
int ggml_cpu_answer(void);
struct ggml_backend_device { const char *name; };
static struct ggml_backend_device only = {"CPU"};
size_t ggml_backend_dev_count(void) { return 1; }
ggml_backend_dev_t ggml_backend_dev_get(size_t index) { return index ? NULL : &only; }
const char *ggml_backend_dev_name(ggml_backend_dev_t device) { return device->name; }
const char *ggml_backend_dev_description(ggml_backend_dev_t device) { (void)device; return ggml_cpu_answer() == 42 ? "played" : ""; }
void ggml_backend_dev_memory(ggml_backend_dev_t device, size_t *free, size_t *total) { (void)device; *free = *total = 3 << 20; }
enum ggml_backend_dev_type ggml_backend_dev_type(ggml_backend_dev_t device) { (void)device; return GGML_BACKEND_DEVICE_TYPE_CPU; }
ggml_backend_reg_t ggml_backend_dev_backend_reg(ggml_backend_dev_t device) { (void)device; return NULL; }
const char *ggml_backend_reg_name(ggml_backend_reg_t reg) { (void)reg; return "CPU"; }
