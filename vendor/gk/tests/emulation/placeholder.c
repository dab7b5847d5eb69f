/* Placeholder for the device code, which the emulated driver does not read. */
extern const unsigned char gk_cuda_image[];
extern const unsigned char gk_rocm_image[];
const unsigned char gk_cuda_image[] = "emulated";
const unsigned char gk_rocm_image[] = "emulated";
