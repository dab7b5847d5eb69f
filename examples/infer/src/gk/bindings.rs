pub const GK_ABI: u32 = 3;
pub const GK_F32: gk_type = 0;
pub const GK_F16: gk_type = 1;
pub const GK_Q4_0: gk_type = 2;
pub const GK_Q8_0: gk_type = 8;
pub const GK_Q4_K: gk_type = 12;
pub const GK_Q6_K: gk_type = 14;
pub const GK_I32: gk_type = 26;
pub const GK_BF16: gk_type = 30;
pub type gk_type = ::core::ffi::c_uint;
pub const GK_OK: gk_status = 0;
pub const GK_NO_DRIVER: gk_status = 1;
pub const GK_NO_DEVICE: gk_status = 2;
pub const GK_TOO_OLD: gk_status = 3;
pub const GK_OUT_OF_MEMORY: gk_status = 4;
pub const GK_UNSUPPORTED: gk_status = 5;
pub const GK_DEVICE_LOST: gk_status = 6;
pub const GK_BAD_ARGUMENT: gk_status = 7;
pub const GK_FAILED: gk_status = 8;
pub type gk_status = ::core::ffi::c_uint;
pub const GK_KIND_CPU: gk_device_kind = 0;
pub const GK_KIND_INTEGRATED: gk_device_kind = 1;
pub const GK_KIND_DISCRETE: gk_device_kind = 2;
pub const GK_KIND_SOFTWARE: gk_device_kind = 3;
pub type gk_device_kind = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug)]
pub struct gk_device {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct gk_buffer {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct gk_plan {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gk_device_info {
    pub name: [::core::ffi::c_char; 128usize],
    pub driver: [::core::ffi::c_char; 96usize],
    pub arch: [::core::ffi::c_char; 32usize],
    pub pci: [::core::ffi::c_char; 16usize],
    pub uuid: [u8; 16usize],
    pub kind: u32,
    pub reserved: u32,
    pub memory_total: u64,
    pub memory_free: u64,
    pub max_buffer: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of gk_device_info"][::core::mem::size_of::<gk_device_info>() - 320usize];
    ["Alignment of gk_device_info"][::core::mem::align_of::<gk_device_info>() - 8usize];
    [
        "Offset of field: gk_device_info::name",
    ][::core::mem::offset_of!(gk_device_info, name) - 0usize];
    [
        "Offset of field: gk_device_info::driver",
    ][::core::mem::offset_of!(gk_device_info, driver) - 128usize];
    [
        "Offset of field: gk_device_info::arch",
    ][::core::mem::offset_of!(gk_device_info, arch) - 224usize];
    [
        "Offset of field: gk_device_info::pci",
    ][::core::mem::offset_of!(gk_device_info, pci) - 256usize];
    [
        "Offset of field: gk_device_info::uuid",
    ][::core::mem::offset_of!(gk_device_info, uuid) - 272usize];
    [
        "Offset of field: gk_device_info::kind",
    ][::core::mem::offset_of!(gk_device_info, kind) - 288usize];
    [
        "Offset of field: gk_device_info::reserved",
    ][::core::mem::offset_of!(gk_device_info, reserved) - 292usize];
    [
        "Offset of field: gk_device_info::memory_total",
    ][::core::mem::offset_of!(gk_device_info, memory_total) - 296usize];
    [
        "Offset of field: gk_device_info::memory_free",
    ][::core::mem::offset_of!(gk_device_info, memory_free) - 304usize];
    [
        "Offset of field: gk_device_info::max_buffer",
    ][::core::mem::offset_of!(gk_device_info, max_buffer) - 312usize];
};
pub const GK_OPEN_EXACT: _bindgen_ty_1 = 1;
pub const GK_OPEN_BIND: _bindgen_ty_1 = 2;
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gk_open_options {
    pub threads: u32,
    pub flags: u32,
    pub cache_dir: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of gk_open_options"][::core::mem::size_of::<gk_open_options>() - 16usize];
    [
        "Alignment of gk_open_options",
    ][::core::mem::align_of::<gk_open_options>() - 8usize];
    [
        "Offset of field: gk_open_options::threads",
    ][::core::mem::offset_of!(gk_open_options, threads) - 0usize];
    [
        "Offset of field: gk_open_options::flags",
    ][::core::mem::offset_of!(gk_open_options, flags) - 4usize];
    [
        "Offset of field: gk_open_options::cache_dir",
    ][::core::mem::offset_of!(gk_open_options, cache_dir) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gk_tensor {
    pub buffer: *mut gk_buffer,
    pub offset: u64,
    pub type_: u32,
    pub row_stride: u32,
    pub ne: [u32; 4usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of gk_tensor"][::core::mem::size_of::<gk_tensor>() - 40usize];
    ["Alignment of gk_tensor"][::core::mem::align_of::<gk_tensor>() - 8usize];
    [
        "Offset of field: gk_tensor::buffer",
    ][::core::mem::offset_of!(gk_tensor, buffer) - 0usize];
    [
        "Offset of field: gk_tensor::offset",
    ][::core::mem::offset_of!(gk_tensor, offset) - 8usize];
    [
        "Offset of field: gk_tensor::type_",
    ][::core::mem::offset_of!(gk_tensor, type_) - 16usize];
    [
        "Offset of field: gk_tensor::row_stride",
    ][::core::mem::offset_of!(gk_tensor, row_stride) - 20usize];
    ["Offset of field: gk_tensor::ne"][::core::mem::offset_of!(gk_tensor, ne) - 24usize];
};
pub const GK_OP_EMBED: gk_op_code = 1;
pub const GK_OP_RMSNORM: gk_op_code = 2;
pub const GK_OP_MATMUL: gk_op_code = 3;
pub const GK_OP_ROPE: gk_op_code = 4;
pub const GK_OP_KV_WRITE: gk_op_code = 5;
pub const GK_OP_ATTENTION: gk_op_code = 6;
pub const GK_OP_SWIGLU: gk_op_code = 7;
pub const GK_OP_SILU: gk_op_code = 8;
pub const GK_OP_ADD: gk_op_code = 9;
pub const GK_OP_MUL: gk_op_code = 10;
pub const GK_OP_SOFTMAX: gk_op_code = 11;
pub const GK_OP_ARGMAX: gk_op_code = 12;
pub const GK_OP_TOPK: gk_op_code = 13;
pub const GK_OP_COPY: gk_op_code = 14;
pub const GK_OP_STEP: gk_op_code = 15;
pub const GK_OP_ROPE_KV: gk_op_code = 16;
pub const GK_OP_GATE_UP: gk_op_code = 17;
pub const GK_OP_NORM_MATMUL: gk_op_code = 18;
pub type gk_op_code = ::core::ffi::c_uint;
pub const GK_ACCUMULATE: _bindgen_ty_2 = 1;
pub const GK_BIAS: _bindgen_ty_2 = 2;
pub const GK_NEOX: _bindgen_ty_2 = 4;
pub const GK_LAST_ROW: _bindgen_ty_2 = 8;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gk_op {
    pub code: u16,
    pub flags: u16,
    pub tag: u32,
    pub dst: gk_tensor,
    pub a: gk_tensor,
    pub b: gk_tensor,
    pub c: gk_tensor,
    pub d: gk_tensor,
    pub i: [i32; 4usize],
    pub f: [f32; 4usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of gk_op"][::core::mem::size_of::<gk_op>() - 240usize];
    ["Alignment of gk_op"][::core::mem::align_of::<gk_op>() - 8usize];
    ["Offset of field: gk_op::code"][::core::mem::offset_of!(gk_op, code) - 0usize];
    ["Offset of field: gk_op::flags"][::core::mem::offset_of!(gk_op, flags) - 2usize];
    ["Offset of field: gk_op::tag"][::core::mem::offset_of!(gk_op, tag) - 4usize];
    ["Offset of field: gk_op::dst"][::core::mem::offset_of!(gk_op, dst) - 8usize];
    ["Offset of field: gk_op::a"][::core::mem::offset_of!(gk_op, a) - 48usize];
    ["Offset of field: gk_op::b"][::core::mem::offset_of!(gk_op, b) - 88usize];
    ["Offset of field: gk_op::c"][::core::mem::offset_of!(gk_op, c) - 128usize];
    ["Offset of field: gk_op::d"][::core::mem::offset_of!(gk_op, d) - 168usize];
    ["Offset of field: gk_op::i"][::core::mem::offset_of!(gk_op, i) - 208usize];
    ["Offset of field: gk_op::f"][::core::mem::offset_of!(gk_op, f) - 224usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gk_step {
    pub n_tok: u32,
    pub pos: u32,
    pub run: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of gk_step"][::core::mem::size_of::<gk_step>() - 16usize];
    ["Alignment of gk_step"][::core::mem::align_of::<gk_step>() - 4usize];
    [
        "Offset of field: gk_step::n_tok",
    ][::core::mem::offset_of!(gk_step, n_tok) - 0usize];
    ["Offset of field: gk_step::pos"][::core::mem::offset_of!(gk_step, pos) - 4usize];
    ["Offset of field: gk_step::run"][::core::mem::offset_of!(gk_step, run) - 8usize];
    [
        "Offset of field: gk_step::reserved",
    ][::core::mem::offset_of!(gk_step, reserved) - 12usize];
};
pub const GK_USAGE_WEIGHT: gk_usage = 1;
pub const GK_USAGE_STATE: gk_usage = 2;
pub const GK_USAGE_STAGING: gk_usage = 3;
pub type gk_usage = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gk_traffic {
    pub up: u64,
    pub down: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of gk_traffic"][::core::mem::size_of::<gk_traffic>() - 16usize];
    ["Alignment of gk_traffic"][::core::mem::align_of::<gk_traffic>() - 8usize];
    [
        "Offset of field: gk_traffic::up",
    ][::core::mem::offset_of!(gk_traffic, up) - 0usize];
    [
        "Offset of field: gk_traffic::down",
    ][::core::mem::offset_of!(gk_traffic, down) - 8usize];
};
pub const GK_REPLAY_HOST: gk_replay = 0;
pub const GK_REPLAY_LAUNCHES: gk_replay = 1;
pub const GK_REPLAY_COMMANDS: gk_replay = 2;
pub const GK_REPLAY_GRAPH: gk_replay = 3;
pub type gk_replay = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gk_plan_info {
    pub launches: u32,
    pub replay: u32,
    pub note: [::core::ffi::c_char; 240usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of gk_plan_info"][::core::mem::size_of::<gk_plan_info>() - 248usize];
    ["Alignment of gk_plan_info"][::core::mem::align_of::<gk_plan_info>() - 4usize];
    [
        "Offset of field: gk_plan_info::launches",
    ][::core::mem::offset_of!(gk_plan_info, launches) - 0usize];
    [
        "Offset of field: gk_plan_info::replay",
    ][::core::mem::offset_of!(gk_plan_info, replay) - 4usize];
    [
        "Offset of field: gk_plan_info::note",
    ][::core::mem::offset_of!(gk_plan_info, note) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gk_backend {
    pub abi: u32,
    pub reserved: u32,
    pub id: *const ::core::ffi::c_char,
    pub enumerate: ::core::option::Option<
        unsafe extern "C" fn(
            out: *mut gk_device_info,
            capacity: ::core::ffi::c_int,
            count: *mut ::core::ffi::c_int,
            why: *mut ::core::ffi::c_char,
            why_capacity: usize,
        ) -> gk_status,
    >,
    pub open: ::core::option::Option<
        unsafe extern "C" fn(
            index: ::core::ffi::c_int,
            options: *const gk_open_options,
            out: *mut *mut gk_device,
            why: *mut ::core::ffi::c_char,
            why_capacity: usize,
        ) -> gk_status,
    >,
    pub close: ::core::option::Option<unsafe extern "C" fn(arg1: *mut gk_device)>,
    pub last_error: ::core::option::Option<
        unsafe extern "C" fn(arg1: *mut gk_device) -> *const ::core::ffi::c_char,
    >,
    pub memory: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *mut gk_device,
            free_bytes: *mut u64,
            total_bytes: *mut u64,
        ) -> gk_status,
    >,
    pub traffic: ::core::option::Option<
        unsafe extern "C" fn(arg1: *mut gk_device, arg2: *mut gk_traffic),
    >,
    pub alloc: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *mut gk_device,
            bytes: u64,
            usage: u32,
            arg2: *mut *mut gk_buffer,
        ) -> gk_status,
    >,
    pub release: ::core::option::Option<
        unsafe extern "C" fn(arg1: *mut gk_device, arg2: *mut gk_buffer),
    >,
    pub write: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *mut gk_device,
            arg2: *mut gk_buffer,
            offset: u64,
            source: *const ::core::ffi::c_void,
            bytes: u64,
        ) -> gk_status,
    >,
    pub read: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *mut gk_device,
            arg2: *mut gk_buffer,
            offset: u64,
            destination: *mut ::core::ffi::c_void,
            bytes: u64,
        ) -> gk_status,
    >,
    pub weight_bytes: ::core::option::Option<
        unsafe extern "C" fn(arg1: *mut gk_device, type_: u32, ne0: u64, ne1: u64) -> u64,
    >,
    pub weight_put: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *mut gk_device,
            dst: *const gk_tensor,
            gguf_rows: *const ::core::ffi::c_void,
            first: u64,
            count: u64,
        ) -> gk_status,
    >,
    pub supports: ::core::option::Option<
        unsafe extern "C" fn(arg1: *mut gk_device, arg2: *const gk_op) -> gk_status,
    >,
    pub plan_build: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *mut gk_device,
            ops: *const gk_op,
            count: u32,
            out: *mut *mut gk_plan,
        ) -> gk_status,
    >,
    pub plan_run: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *mut gk_device,
            arg2: *mut gk_plan,
            arg3: *const gk_step,
            repeat: u32,
        ) -> gk_status,
    >,
    pub plan_info: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *mut gk_device,
            arg2: *mut gk_plan,
            out: *mut gk_plan_info,
        ) -> gk_status,
    >,
    pub plan_free: ::core::option::Option<
        unsafe extern "C" fn(arg1: *mut gk_device, arg2: *mut gk_plan),
    >,
    pub sync: ::core::option::Option<
        unsafe extern "C" fn(arg1: *mut gk_device) -> gk_status,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of gk_backend"][::core::mem::size_of::<gk_backend>() - 160usize];
    ["Alignment of gk_backend"][::core::mem::align_of::<gk_backend>() - 8usize];
    [
        "Offset of field: gk_backend::abi",
    ][::core::mem::offset_of!(gk_backend, abi) - 0usize];
    [
        "Offset of field: gk_backend::reserved",
    ][::core::mem::offset_of!(gk_backend, reserved) - 4usize];
    [
        "Offset of field: gk_backend::id",
    ][::core::mem::offset_of!(gk_backend, id) - 8usize];
    [
        "Offset of field: gk_backend::enumerate",
    ][::core::mem::offset_of!(gk_backend, enumerate) - 16usize];
    [
        "Offset of field: gk_backend::open",
    ][::core::mem::offset_of!(gk_backend, open) - 24usize];
    [
        "Offset of field: gk_backend::close",
    ][::core::mem::offset_of!(gk_backend, close) - 32usize];
    [
        "Offset of field: gk_backend::last_error",
    ][::core::mem::offset_of!(gk_backend, last_error) - 40usize];
    [
        "Offset of field: gk_backend::memory",
    ][::core::mem::offset_of!(gk_backend, memory) - 48usize];
    [
        "Offset of field: gk_backend::traffic",
    ][::core::mem::offset_of!(gk_backend, traffic) - 56usize];
    [
        "Offset of field: gk_backend::alloc",
    ][::core::mem::offset_of!(gk_backend, alloc) - 64usize];
    [
        "Offset of field: gk_backend::release",
    ][::core::mem::offset_of!(gk_backend, release) - 72usize];
    [
        "Offset of field: gk_backend::write",
    ][::core::mem::offset_of!(gk_backend, write) - 80usize];
    [
        "Offset of field: gk_backend::read",
    ][::core::mem::offset_of!(gk_backend, read) - 88usize];
    [
        "Offset of field: gk_backend::weight_bytes",
    ][::core::mem::offset_of!(gk_backend, weight_bytes) - 96usize];
    [
        "Offset of field: gk_backend::weight_put",
    ][::core::mem::offset_of!(gk_backend, weight_put) - 104usize];
    [
        "Offset of field: gk_backend::supports",
    ][::core::mem::offset_of!(gk_backend, supports) - 112usize];
    [
        "Offset of field: gk_backend::plan_build",
    ][::core::mem::offset_of!(gk_backend, plan_build) - 120usize];
    [
        "Offset of field: gk_backend::plan_run",
    ][::core::mem::offset_of!(gk_backend, plan_run) - 128usize];
    [
        "Offset of field: gk_backend::plan_info",
    ][::core::mem::offset_of!(gk_backend, plan_info) - 136usize];
    [
        "Offset of field: gk_backend::plan_free",
    ][::core::mem::offset_of!(gk_backend, plan_free) - 144usize];
    [
        "Offset of field: gk_backend::sync",
    ][::core::mem::offset_of!(gk_backend, sync) - 152usize];
};
unsafe extern "C" {
    pub fn gk_backend_cpu() -> *const gk_backend;
    pub fn gk_backend_cuda() -> *const gk_backend;
    pub fn gk_backend_rocm() -> *const gk_backend;
    pub fn gk_backend_vulkan() -> *const gk_backend;
    pub fn gk_backend_opencl() -> *const gk_backend;
    pub fn gk_backend_metal() -> *const gk_backend;
    pub fn gk_backend_sycl() -> *const gk_backend;
    pub fn gk_backend_ref() -> *const gk_backend;
    pub fn gk_status_text(arg1: gk_status) -> *const ::core::ffi::c_char;
    pub fn gk_type_name(type_: u32) -> *const ::core::ffi::c_char;
    pub fn gk_type_block_elements(type_: u32) -> u32;
    pub fn gk_type_block_bytes(type_: u32) -> u32;
    pub fn gk_row_bytes(type_: u32, ne0: u64) -> u64;
    pub fn gk_op_check(arg1: *const gk_op) -> *const ::core::ffi::c_char;
    pub fn gk_op_name(code: u16) -> *const ::core::ffi::c_char;
    pub fn gk_fuse(
        arg1: *const gk_backend,
        arg2: *mut gk_device,
        in_: *const gk_op,
        n: u32,
        out: *mut gk_op,
    ) -> u32;
}
