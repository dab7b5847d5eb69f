use super::*;

/// Bytes of patterns' text, bytes in memory, and the result.
fn read(log: impl Iterator<Item = Vec<u8>>) -> (usize, usize, LogReading) {
    let mut reader = Signatures::embedded().reader();
    let mut peak = 0;
    for part in log {
        reader.push(&part);
        peak = peak.max(reader.state.lines.capacity());
    }
    let tried = reader.state.search.known.tried.iter().map(|tried| tried.bytes).sum();
    (tried, peak, reader.finish())
}

/// The beginning of an endless repetition, in parts that end anywhere.
fn repeated(block: &[u8], size: usize) -> impl Iterator<Item = Vec<u8>> {
    let bytes: Vec<u8> = block.iter().copied().cycle().take(size).collect();
    bytes.chunks(10_007).map(<[u8]>::to_vec).collect::<Vec<_>>().into_iter()
}

#[test]
fn work_is_linear_and_memory_is_bounded() {
    const SIZE: usize = 48 << 10;
    let long_error = format!("ld: cannot find -lx{}\n", "x".repeat(15_000));
    let spread = format!("Could NOT find CUDNN (missing: x){}", "\n".repeat(30));
    let prefixed = format!("{}error: no\n", "[1/2] ".repeat(500));
    let shapes: [&[u8]; 16] = [
        b"x",
        b"\r",
        b"\n",
        b"\0",
        b"\x1b",
        b"\x1b]0;",
        b"\xff\xfe\x00\xd8",
        b"\rDownloading 10%",
        b"error: foo\n",
        b"error: foo\r\n",
        b"a.obj : error LNK2001: unresolved external symbol cublasCreate_v2\n",
        b"CMake Error at CMakeLists.txt:9 (find_package):\n  Could not find a package configuration file\n\n",
        b"CMake Warning at x:\n  error: cannot find -lcuda\nDetermining if x failed with the following output:\n",
        long_error.as_bytes(),
        spread.as_bytes(),
        prefixed.as_bytes(),
    ];
    for shape in shapes {
        let name = String::from_utf8_lossy(&shape[..shape.len().min(80)]);
        let (once, memory, _) = read(repeated(shape, SIZE));
        let (four, same_memory, reading) = read(repeated(shape, 4 * SIZE));
        assert!(four <= 5 * once + 4 * SIZE, "{name:?}: {once} and {four} bytes");
        assert!(four <= 64 * SIZE, "{name:?}: {four} bytes");
        assert!(memory.max(same_memory) <= 3 << 20, "{name:?}: {memory} and {same_memory} bytes in memory");
        let breaks = shape.split(|byte| *byte == b'\n').count() - 1;
        assert!(reading.lines.abs_diff(breaks * 4 * SIZE / shape.len()) <= 30, "{name:?}: {}", reading.lines);
    }
}

#[test]
fn result_does_not_depend_on_the_parts() {
    let samples: Vec<&str> =
        Signatures::with_samples().iter().map(|signature| signature.sample.as_str()).collect();
    let log = samples[..150].concat();
    let whole = Signatures::embedded().read(log.as_bytes());
    assert!(whole.causes.len() > 20);
    for size in [997, 64 << 10] {
        let (_, _, reading) = read(log.as_bytes().chunks(size).map(<[u8]>::to_vec));
        assert!(reading == whole, "{size}");
    }
}

/// `gpubuild doctor --log` of a file that PowerShell wrote with `>`, and of one to which it appended with `>>`.
#[test]
fn logs_of_powershell_are_read() {
    let text = "[1/2] cl a.cpp\r\nLINK : fatal error LNK1181: \u{65e0}\u{6cd5}\u{6253}\u{5f00}\u{8f93}\u{5165}\u{6587}\u{4ef6}\u{201c}cublas.lib\u{201d}\r\n";
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let marked = [b"\xff\xfe".to_vec(), utf16(text)].concat();
    let reading = Signatures::embedded().read(&marked);
    assert_eq!(
        (reading.causes[0].id.as_str(), reading.causes[0].line),
        ("cuda.toolkit.component-missing", 2)
    );
    assert!(reading.causes[0].text.contains("\u{65e0}\u{6cd5}"), "{:?}", reading.causes[0].text);
    let text = "LINK : fatal error LNK1181: cannot open input file 'cublas.lib'\r\n";
    let appended = [b"first line\r\n".to_vec(), utf16(text)].concat();
    let reading = Signatures::embedded().read(&appended);
    assert_eq!(
        (reading.causes[0].id.as_str(), reading.causes[0].line),
        ("cuda.toolkit.component-missing", 2)
    );
    let lone = [b"\xff\xfe".to_vec(), vec![0, 0xd8], utf16(text), vec![0, 0xdc, b'x']].concat();
    assert_eq!(Signatures::embedded().read(&lone).causes[0].line, 1);
}

/// Checks of setuptools, Autoconf and Meson compile a small program that may fail.
#[test]
fn failed_checks_are_no_causes() {
    for log in [
        "  gcc -fPIC -I/usr/local/cuda/include -c /tmp/tmpab12cd3e/a.cpp -o /tmp/tmpab12cd3e/a.o\n  /tmp/tmpab12cd3e/a.cpp:1:10: fatal error: cudnn.h: No such file or directory\n      1 | #include <cudnn.h>\n        |          ^~~~~~~~~\n  compilation terminated.\n  *** WARNING: Include files not found: ['cudnn.h']\n  *** Skip installing cudnn support\n  building 'cupy.cuda.common' extension\n",
        "configure:4125: gcc -c -g -O2 conftest.c >&5\nconftest.c:11:10: fatal error: nccl.h: No such file or directory\ncompilation terminated.\nconfigure:4125: $? = 1\nchecking for nccl... no\nconfigure: creating ./config.status\n",
        "Running compile:\n/src/build/meson-private/tmpk2b8/testfile.c:2:10: fatal error: CL/cl.h: No such file or directory\ncompilation terminated.\nHas header \"CL/cl.h\" : NO\nBuild targets in project: 12\n",
    ] {
        let reading = Signatures::embedded().read(log.as_bytes());
        let names: Vec<&str> = reading.causes.iter().map(|cause| cause.text.as_str()).collect();
        assert!(names.is_empty(), "{names:?} in\n{log}");
    }
    // The same header in a source of the program is a cause.
    let log = "src/nccl.c:11:10: fatal error: nccl.h: No such file or directory\ncompilation terminated.\n";
    assert!(!Signatures::embedded().read(log.as_bytes()).causes.is_empty());
}

#[test]
fn backends_that_jax_does_not_have_are_no_causes() {
    let log = "Running AlphaFold 3. Please note that standard model parameters are only available under terms of use provided at https://example.com/terms.md.\nI0420 09:31:55.118203 1298 xla_bridge.py:841] Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object file: No such file or directory\nI0420 09:31:55.602741 1298 run.py:823] Found local devices: [CudaDevice(id=0)], using device 0: cuda:0\nDone.\n";
    let reading = Signatures::embedded().read(log.as_bytes());
    assert_eq!((reading.causes, reading.guess), (Vec::new(), None));
}
