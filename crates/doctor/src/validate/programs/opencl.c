/* Adds two arrays with a kernel that the driver compiles, on the first GPU, or without a GPU on any device. */
#define CL_TARGET_OPENCL_VERSION 120
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1024 };

static void check(const char *what, cl_int error) {
    if (error == CL_SUCCESS) return;
    fprintf(stderr, "%s: error %d\n", what, (int)error);
    exit(1);
}

static cl_device_id choose(void) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    check("clGetPlatformIDs", clGetPlatformIDs(16, platforms, &count));
    if (count > 16) count = 16;
    const cl_device_type kinds[2] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ALL};
    for (int kind = 0; kind < 2; kind++)
        for (cl_uint i = 0; i < count; i++) {
            cl_device_id device;
            if (clGetDeviceIDs(platforms[i], kinds[kind], 1, &device, NULL) == CL_SUCCESS) return device;
        }
    fprintf(stderr, "device: no platform has a device\n");
    exit(1);
}

int main(void) {
    const char *source =
        "__kernel void add(__global float *a, __global const float *b) { size_t i = get_global_id(0); a[i] += b[i]; }";
    static float a[COUNT], b[COUNT];
    for (int i = 0; i < COUNT; i++) a[i] = (float)i, b[i] = 2.0f * (float)i;
    cl_int error;
    cl_device_id device = choose();
    char name[256] = "";
    check("clGetDeviceInfo", clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL));
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check("clCreateContext", error);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    check("clCreateCommandQueue", error);
    cl_mem first = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof a, a, &error);
    check("clCreateBuffer", error);
    cl_mem second = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof b, b, &error);
    check("clCreateBuffer", error);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
    check("clCreateProgramWithSource", error);
    check("clBuildProgram", clBuildProgram(program, 1, &device, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "add", &error);
    check("clCreateKernel", error);
    check("clSetKernelArg", clSetKernelArg(kernel, 0, sizeof first, &first));
    check("clSetKernelArg", clSetKernelArg(kernel, 1, sizeof second, &second));
    size_t global = COUNT;
    check("clEnqueueNDRangeKernel", clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    check("clEnqueueReadBuffer", clEnqueueReadBuffer(queue, first, CL_TRUE, 0, sizeof a, a, 0, NULL, NULL));
    for (int i = 0; i < COUNT; i++)
        if (a[i] != 3.0f * (float)i) {
            fprintf(stderr, "result: element %d is %g\n", i, (double)a[i]);
            return 1;
        }
    printf("ok: %s\n", name);
    return 0;
}
