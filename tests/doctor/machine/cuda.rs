//! CUDA Toolkits in their various layouts.

use gpubuild_host::Os;

use super::Machine;

/// Supported compilers of a release, from `crt/host_config.h`: the newest GCC, and the first unsupported Clang.
fn window(version: &str) -> (u32, u32, u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().expect("a version"));
    match (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) {
        (11, 0) => (9, 10, 1700, 1930),
        (11, 1..=4) => (10, 12, 1910, 1930),
        (11, 5) => (11, 13, 1910, 1940),
        (11, _) => (11, 15, 1910, 1940),
        (12, 0) => (12, 15, 1910, 1940),
        (12, 1) => (12, 16, 1910, 1940),
        (12, 2..=3) => (12, 17, 1910, 1940),
        (12, 4..=5) => (13, 18, 1910, 1950),
        (12, 6) => (13, 19, 1910, 1950),
        (12, _) => (14, 20, 1910, 1950),
        (13, 0) => (15, 21, 1920, 1950),
        (13, 1) => (15, 22, 1920, 1950),
        _ => (15, 22, 1920, 1960),
    }
}

impl Machine {
    /// Adds NVIDIA's package in `/usr/local/cuda-X.Y`, with the default link and PATH as its guide recommends.
    pub fn cuda(self, version: &str) -> Self {
        let short = short(version);
        self.cuda_at(&format!("/usr/local/cuda-{short}"), version)
            .link("/usr/local/cuda", &format!("/usr/local/cuda-{short}"))
            .path_first("/usr/local/cuda/bin")
    }

    /// Adds a toolkit in a folder, in the layout of NVIDIA's packages and the runfile.
    pub fn cuda_at(self, root: &str, version: &str) -> Self {
        self.cuda_headers(&format!("{root}/include"), version)
            .cuda_compiler(root, version)
            .file(&format!("{root}/version.json"), &version_json(version))
            .opaque(&format!("{root}/lib64/libcudart_static.a"))
            .opaque(&format!("{root}/lib64/libcudart.so"))
            .opaque(&format!("{root}/lib64/libcublas.so"))
            .opaque(&format!("{root}/lib64/stubs/libcuda.so"))
            .opaque(&format!("{root}/nvvm/libdevice/libdevice.10.bc"))
    }

    /// Adds the compiler and its version output.
    pub fn cuda_compiler(self, root: &str, version: &str) -> Self {
        let nvcc = format!("{root}/bin/nvcc");
        let short = short(version);
        let version_text = format!(
            "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation\nBuilt on Tue\nCuda compilation tools, release {short}, V{version}.99\nBuild cuda_{short}.r{short}/compiler.1_0\n"
        );
        self.program(&nvcc)
            .program(&format!("{root}/bin/ptxas"))
            .command(&[&nvcc, "--version"], &version_text)
    }

    /// Adds the headers.
    pub fn cuda_headers(self, include: &str, version: &str) -> Self {
        let mut parts = version.split('.').map(|part| part.parse::<u32>().expect("a version"));
        let number = parts.next().unwrap_or(0) * 1000 + parts.next().unwrap_or(0) * 10;
        let (gcc, clang, least, below) = window(version);
        let config = format!(
            "#if defined(__GNUC__)\n#if __GNUC__ > {gcc}\n#error -- unsupported GNU version! gcc versions later than {gcc} are not supported!\n#endif\n#if defined(__clang__) && !defined(__ibmxl_vrm__)\n#if (__clang_major__ >= {clang}) || (__clang_major__ < 3)\n#error -- unsupported clang version!\n#endif\n#endif\n#elif defined(_WIN32)\n#if _MSC_VER < {least} || _MSC_VER >= {below}\n#error -- unsupported Microsoft Visual Studio version!\n#endif\n#endif\n"
        );
        self.file(&format!("{include}/cuda_runtime.h"), "#include \"crt/host_config.h\"\n")
            .file(&format!("{include}/cuda_runtime_api.h"), &format!("#define CUDART_VERSION  {number}\n"))
            .file(&format!("{include}/cuda.h"), &format!("#define CUDA_VERSION {number}\n"))
            .file(&format!("{include}/crt/host_config.h"), &config)
    }

    /// Adds the package of Debian and Ubuntu: nvcc in /usr/bin, headers in /usr/include, libraries in the multiarch
    /// folder.
    pub fn cuda_debian(self, version: &str) -> Self {
        let lib = self.lib.clone();
        self.cuda_headers("/usr/include", version)
            .cuda_compiler("/usr", version)
            .program("/usr/lib/nvidia-cuda-toolkit/bin/nvcc")
            .opaque("/usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc")
            .folder("/usr/lib/cuda/include")
            .opaque(&format!("{lib}/libcudart_static.a"))
            .opaque(&format!("{lib}/libcudart.so"))
            .opaque(&format!("{lib}/libcublas.so"))
            .opaque(&format!("{lib}/stubs/libcuda.so"))
    }

    /// Adds a toolkit in an active conda environment.
    pub fn cuda_conda(self, prefix: &str, version: &str) -> Self {
        let target = format!("{prefix}/targets/x86_64-linux");
        self.env("CONDA_PREFIX", prefix)
            .path_first(&format!("{prefix}/bin"))
            .folder(&format!("{prefix}/conda-meta"))
            .cuda_compiler(prefix, version)
            .cuda_headers(&format!("{target}/include"), version)
            .opaque(&format!("{target}/lib/libcudart_static.a"))
            .opaque(&format!("{target}/lib/libcudart.so"))
            .opaque(&format!("{target}/lib/stubs/libcuda.so"))
            .opaque(&format!("{prefix}/lib/libcublas.so"))
            .opaque(&format!("{prefix}/nvvm/libdevice/libdevice.10.bc"))
    }

    /// Adds the files and variables of NVIDIA's installer on Windows.
    pub fn cuda_windows(self, version: &str) -> Self {
        assert_eq!(self.platform.os, Os::Windows, "this layout is for Windows");
        let short = short(version);
        let root = format!(r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v{short}");
        let name = format!("CUDA_PATH_V{}", short.replace('.', "_"));
        self.cuda_windows_files(version)
            .env("CUDA_PATH", &root)
            .env(&name, &root)
            .path_first(&format!(r"{root}\bin"))
    }

    /// Adds the files of the Windows installer without its variables.
    pub fn cuda_windows_files(self, version: &str) -> Self {
        let short = short(version);
        let root = format!("C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v{short}");
        let version_text = format!(
            "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {short}, V{version}.99\n"
        );
        self.cuda_headers(&format!("{root}/include"), version)
            .program(&format!("{root}/bin/nvcc.exe"))
            .program(&format!("{root}/bin/ptxas.exe"))
            .command(&[&format!("{root}/bin/nvcc.exe"), "--version"], &version_text)
            .file(&format!("{root}/version.json"), &version_json(version))
            .opaque(&format!("{root}/lib/x64/cudart_static.lib"))
            .opaque(&format!("{root}/lib/x64/cuda.lib"))
            .opaque(&format!("{root}/lib/x64/cublas.lib"))
            .opaque(&format!("{root}/nvvm/libdevice/libdevice.10.bc"))
            .registry(
                &format!(r"HKLM\SOFTWARE\NVIDIA Corporation\GPU Computing Toolkit\CUDA\v{short}"),
                "InstallDir",
                &root.replace('/', "\\"),
            )
    }
}

/// `12.4` for `12.4.1`.
fn short(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn version_json(version: &str) -> String {
    format!("{{\"cuda\": {{\"name\": \"CUDA SDK\", \"version\": \"{version}\"}}}}\n")
}
