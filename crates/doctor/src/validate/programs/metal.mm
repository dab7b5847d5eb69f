// Adds two arrays with a kernel that Metal compiles from its source.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>
#include <cstdio>

static NSString *const source = @"#include <metal_stdlib>\n"
                                 "kernel void add(device float *a [[buffer(0)]], device const float *b [[buffer(1)]],\n"
                                 "                uint i [[thread_position_in_grid]]) { a[i] += b[i]; }";

int main() {
    @autoreleasepool {
        const int count = 1024;
        id<MTLDevice> device = MTLCreateSystemDefaultDevice();
        if (device == nil) return std::fprintf(stderr, "device: Metal lists no device\n"), 1;
        NSError *error = nil;
        id<MTLLibrary> library = [device newLibraryWithSource:source options:nil error:&error];
        if (library == nil) return std::fprintf(stderr, "shader: %s\n", error.localizedDescription.UTF8String), 1;
        id<MTLComputePipelineState> pipeline =
            [device newComputePipelineStateWithFunction:[library newFunctionWithName:@"add"] error:&error];
        if (pipeline == nil) return std::fprintf(stderr, "pipeline: %s\n", error.localizedDescription.UTF8String), 1;
        id<MTLBuffer> a = [device newBufferWithLength:count * sizeof(float) options:MTLResourceStorageModeShared];
        id<MTLBuffer> b = [device newBufferWithLength:count * sizeof(float) options:MTLResourceStorageModeShared];
        float *first = static_cast<float *>(a.contents), *second = static_cast<float *>(b.contents);
        for (int i = 0; i < count; i++) first[i] = float(i), second[i] = 2.0f * float(i);
        id<MTLCommandBuffer> commands = [[device newCommandQueue] commandBuffer];
        id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
        [encoder setComputePipelineState:pipeline];
        [encoder setBuffer:a offset:0 atIndex:0];
        [encoder setBuffer:b offset:0 atIndex:1];
        [encoder dispatchThreadgroups:MTLSizeMake(count / 64, 1, 1) threadsPerThreadgroup:MTLSizeMake(64, 1, 1)];
        [encoder endEncoding];
        [commands commit];
        [commands waitUntilCompleted];
        for (int i = 0; i < count; i++)
            if (first[i] != 3.0f * float(i)) return std::fprintf(stderr, "result: element %d is %g\n", i, double(first[i])), 1;
        std::printf("ok: %s\n", device.name.UTF8String);
        return 0;
    }
}
