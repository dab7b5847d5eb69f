use super::*;

fn clean(text: &str) -> String {
    redact(text).text.into_owned()
}

#[test]
fn the_text_around_a_secret_is_unchanged() {
    for (text, expected) in [
        ("-O2 -DAPI_KEY=abc123 -g", "-O2 -DAPI_KEY=[redacted] -g"),
        ("-DX_TOKEN:STRING=abcd;-DY=1", "-DX_TOKEN:STRING=[redacted];-DY=1"),
        ("-DA=\\\"b\\\" -DMY_SECRET=\\\"two words\\\" -g", "-DA=\\\"b\\\" -DMY_SECRET=\\\"[redacted]\\\" -g"),
        ("'-DMY_SECRET=two words' -g", "'-DMY_SECRET=[redacted]' -g"),
        ("{\"token\": \"ab\\\"cd\", \"a\": 1}", "{\"token\": \"[redacted]\", \"a\": 1}"),
        ("password: hunter2\nuser: me", "password: [redacted]\nuser: me"),
        ("curl --token abcd -u me:pw1 x", "curl --token [redacted] -u [redacted] x"),
        ("https://me:pw@host/x?token=abcd&b=1", "https://[redacted]@host/x?token=[redacted]&b=1"),
        ("Authorization: Bearer abc.def\nA: b", "Authorization: [redacted]\nA: b"),
        ("Cookie: a=bcdef; c=d\nA: b", "Cookie: [redacted]\nA: b"),
        ("machine h login me password pw end", "machine h login [redacted] password [redacted] end"),
        (
            "AccountName=a;AccountKey=ab+/cd==;EndpointSuffix=e",
            "AccountName=a;AccountKey=[redacted];EndpointSuffix=e",
        ),
    ] {
        assert_eq!(clean(text), expected);
        assert_eq!(clean(expected), expected, "redaction is idempotent");
    }
}

#[test]
fn other_text_is_not_redacted() {
    for text in [
        "/nix/store/0c5b2r5yq7nxvjm1wl8m3a9s2d4f6g7h-gcc-13.2.0/lib:/nix/store/z1x2c3v4b5n6m7a8s9d0f1g2h3j4k5l6-glibc",
        "/opt/conda/pkgs/cuda-nvcc-12.4.131-he02047a_0/bin",
        "/usr/lib/debug/.build-id/3f/a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3.debug",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "hint: add to ~/.netrc: `machine cache.example.org login NAME password PASSWORD`",
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "GPU-8f2b6c1a-1c2d-3e4f-5a6b-0123456789ab MIG-8f2b6c1a-1c2d-3e4f-5a6b-0123456789ab",
        r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}\0000",
        r"PCI\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1",
        "Microsoft Basic Display Adapter, Microsoft Basic Render Driver",
        "Cuda compilation tools, release 12.4, V12.4.131\nBuild cuda_12.4.r12.4/compiler.34097967_0",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30 17:44:08 UTC 2024",
        "-O3 -march=native -DNDEBUG -D_FORTIFY_SOURCE=2 -gencode=arch=compute_90a,code=sm_90a -frandom-seed=6m2k9x1a4b",
        "7.0;7.5;8.0;8.6;8.9;9.0+PTX",
        "gfx90a:sramecc+:xnack- gfx1100",
        "_ZN4ggml7backend8registryC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        "/home/user/.cache/uv/archive-v0/Xy3kP9aB7cD2eF5gH8jK1/lib",
        "/opt/token:/opt/secret/bin:/usr/bin",
        "nvidia/cuda:12.4.1-devel@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "git@github.com:ggml-org/ggml.git ssh://git@github.com/x https://example.com:8080/a@b",
        "Token::value a.key == b --token $TOKEN -DX_TOKEN=${TOKEN} MAX_TOKEN=512 USE_SECRET=ON",
        "XDG_SESSION_TYPE=wayland XDG_SESSION_ID=2 PWD=/home/user/src1 SSH_AUTH_SOCK=/tmp/ssh-Ab12/agent.1",
        "0::/system.slice/docker-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.scope",
        "-DCMAKE_PREFIX_PATH=/opt/libtorch2;/opt/x -DPUBLIC_KEY=abc123def",
        "docker run -u 1000:1000 disk-0123456789abcdefghijklmnop",
        "hf_transfer npm_config_registry sk-learn eyJ",
        "x86_64-conda_cos7-linux-gnu-c++ cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64",
        r"C:\Program Files (x86)\Microsoft Visual Studio\2022\BuildTools\VC\Tools\MSVC\14.38.33130\bin\Hostx64\x64",
    ] {
        assert_eq!(clean(text), text);
    }
}

#[test]
fn secret_arguments_and_known_values_are_redacted() {
    let known = ["s3same-0pen".to_owned()];
    let arguments = ["x", "--password", "pw12", "--jobs", "8", "say s3same-0pen"].map(str::to_owned);
    let (arguments, kinds) = redact_arguments(&arguments, &known);
    assert_eq!(arguments, ["x", "--password", MARK, "--jobs", "8", "say [redacted]"]);
    assert_eq!(kinds, BTreeSet::from([SecretKind::Name, SecretKind::Known]));
    assert_eq!(values("-DAPI_KEY=abcd1234 -g"), ["abcd1234"]);
}

#[test]
fn masked_binaries_keep_their_length() {
    let bytes = b"\xff\0API_KEY=abcd1234\0\xffx";
    assert_eq!(mask(bytes, &[]).unwrap(), b"\xff\0API_KEY=********\0\xffx");
    assert_eq!(mask(b"\xffplain text\0", &[]), None);
}

#[test]
fn the_writer_redacts_each_line() {
    let mut out = Vec::new();
    Redacting(&mut out).write_all(b"run --token abcd1234\n").unwrap();
    assert_eq!(out, b"run --token [redacted]\n");
}
