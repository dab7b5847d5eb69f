//! The simulation of PyTorch compared with its functions, extracted from the installed file without importing
//! PyTorch.

use std::process::Command;

use gpubuild_detect::toolkit::{self, Catalogue};
use gpubuild_doctor::resolvers::resolve_all;
use gpubuild_host::{Environment, Host, HostInfo, Os, Overlay, RealHost, find_program};

use super::skip;

/// Prints the results of `_find_cuda_home` and `_find_rocm_home`; `none` without PyTorch.
const SCRIPT: &str = r#"
import ast, glob, importlib.util, logging, os, pathlib, shutil, sys, types
spec = importlib.util.find_spec("torch")
if spec is None:
    print("none")
    sys.exit()
source = pathlib.Path(spec.origin).parent / "utils" / "cpp_extension.py"
wanted = {"_find_cuda_home", "_find_rocm_home"}
tree = ast.parse(source.read_text())
functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
torch = types.SimpleNamespace(
    cuda=types.SimpleNamespace(is_available=lambda: True), version=types.SimpleNamespace(hip="0"))
names = {"os": os, "glob": glob, "shutil": shutil, "torch": torch, "IS_WINDOWS": False, "importlib": importlib,
    "logger": logging.getLogger(), "Path": pathlib.Path, "Optional": __import__("typing").Optional}
exec(compile(ast.Module(functions, []), str(source), "exec"), names)
print(names["_find_cuda_home"]())
print(names["_find_rocm_home"]())
"#;

#[test]
fn pytorch_simulation_matches_pytorch() {
    let host = RealHost::new();
    // A virtual environment with PyTorch may be named; its other packages are not needed.
    let named = host.env().get("GPUBUILD_TEST_PYTHON").map(str::to_owned);
    let Some(python) = named.or_else(|| Some(find_program(&host, "python3").first()?.as_str().to_owned()))
    else {
        return skip("torch");
    };
    if host.platform().os != Os::Linux {
        return skip("torch");
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for (program, path) in [("nvcc", "old/bin"), ("nvcc", "new/bin"), ("hipcc", "rocm/hip/bin")] {
        let folder = root.join(path);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(program), "#!/bin/sh\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.join(program), mode).unwrap();
    }
    std::fs::create_dir_all(root.join("rocm/bin")).unwrap();
    std::os::unix::fs::symlink("../hip/bin/hipcc", root.join("rocm/bin/hipcc")).unwrap();
    std::os::unix::fs::symlink(root.join("old"), root.join("link")).unwrap();
    let at = |text: &str| text.replace('@', root.to_str().unwrap());
    for variables in [
        &[("PATH", "@/old/bin")] as &[(&str, &str)],
        &[("PATH", "@/link/bin")],
        &[("PATH", "@/old/bin:@/new/bin")],
        &[("PATH", "@/old/bin"), ("CUDA_PATH", "@/new")],
        &[("CUDA_HOME", "@/old"), ("CUDA_PATH", "@/new")],
        &[("CUDA_HOME", "@/nowhere"), ("PATH", "@/new/bin")],
        &[("PATH", "@/rocm/bin")],
        &[("PATH", "@/rocm/bin"), ("ROCM_PATH", "@/elsewhere")],
        &[("ROCM_HOME", "@/a"), ("ROCM_PATH", "@/b")],
        &[],
    ] {
        let mut env =
            Environment::new(Os::Linux, [("HOME", root.to_str().unwrap()), ("PATH", "/usr/bin:/bin")]);
        for (name, value) in variables {
            let value = if *name == "PATH" { format!("{}:/usr/bin:/bin", at(value)) } else { at(value) };
            env = env.with(name, Some(&value));
        }
        let output =
            Command::new(&python).args(["-c", SCRIPT]).env_clear().envs(env.iter()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if printed.trim() == "none" {
            return skip("torch");
        }
        let answers: Vec<&str> = printed.lines().collect();
        assert_eq!(answers.len(), 2, "{}", String::from_utf8_lossy(&output.stderr));
        let overlay = Overlay::new(&host, env);
        let catalogue = Catalogue::embedded();
        let resolutions = resolve_all(&overlay, &toolkit::probe(&overlay, &catalogue), &catalogue);
        for (id, answer) in ["pytorch-cuda", "pytorch-rocm"].iter().zip(answers) {
            let one = resolutions.get(id).unwrap();
            let root = one.takes.as_ref().map_or("None", |takes| takes.root.as_str());
            assert_eq!(root, answer, "{id} with {variables:?}");
        }
    }
}
