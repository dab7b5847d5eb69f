// Dot product of four signed bytes. Uses the SPIR-V opcode because glslc of 2023 does not support
// GL_EXT_integer_dot_product. Capabilities: DotProductInput4x8BitPacked, DotProduct.
#extension GL_EXT_spirv_intrinsics : require

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450) // OpSDot
int dot_of_format(int a, int b, spirv_literal int format);

int dot_of_bytes(uint a, uint b) { return dot_of_format(int(a), int(b), 0); } // 0: PackedVectorFormat4x8Bit
