//! Real servers: nginx with DAV, docker-registry, and moto for S3.
#![expect(clippy::disallowed_methods, reason = "tests start servers and write their settings")]

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Machine, installed};

/// A server that is ended with the test.
struct Running {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a server that `command` configures for a folder and a port, and waits until it accepts connections.
    fn start(command: impl Fn(&std::path::Path, u16) -> Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = command(folder.path(), port);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(120), "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { child, port, folder }
    }
}

/// A second machine uses the result of the first.
fn share(url: &str, change: impl Fn(Machine) -> Machine) -> Option<(Machine, Machine)> {
    let first = change(Machine::new(url)?).writing();
    let second = change(Machine::new(url)?);
    first.build().says("uploaded");
    let built = second.build().says("downloaded");
    assert!(!built.compiled() && built.warnings() == 0, "{built:?}");
    assert_eq!(second.libraries(), first.libraries());
    Some((first, second))
}

fn count(machine: &Machine) -> u64 {
    machine.run(&["cache", "stat", "--json"]).succeeds().json()["entries"].as_u64().unwrap()
}

fn prunes(machine: &Machine) {
    assert_eq!(count(machine), 1);
    let kept = machine.run(&["cache", "prune", "--remote", "--older-than", "30d", "--json"]);
    assert_eq!(kept.succeeds().json()["left"], 1);
    let pruned = machine.run(&["cache", "prune", "--remote", "--all", "--json"]).succeeds().json();
    assert_eq!(pruned["removed"], 1);
    assert_eq!(count(machine), 0);
    machine.forget();
    assert!(machine.build().compiled());
}

/// nginx with DAV. `tls` is added to the server's settings, and `access` to those of its files.
fn nginx(program: &std::path::Path, tls: &str, access: &str) -> Running {
    Running::start(|folder, port| {
        let root = folder.display();
        std::fs::create_dir_all(folder.join("data")).unwrap();
        std::fs::create_dir_all(folder.join("temporary")).unwrap();
        let listen = if tls.is_empty() { "" } else { " ssl" };
        let settings = format!(
            "daemon off; master_process off; error_log {root}/error.log; pid {root}/pid;\nevents {{}}\n\
             http {{ access_log off; client_max_body_size 0; client_body_temp_path {root}/temporary;\n\
             server {{ listen 127.0.0.1:{port}{listen}; {tls} root {root}/data;\n\
             location / {{ dav_methods PUT DELETE; create_full_put_path on; {access} }} }} }}\n"
        );
        std::fs::write(folder.join("nginx.conf"), settings).unwrap();
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
        command
    })
}

#[test]
fn nginx_with_dav_stores_results() {
    let Some(program) = installed("nginx", "nginx") else { return };
    let server = nginx(&program, "", "");
    let Some((_, second)) = share(&format!("http://127.0.0.1:{}/team/store", server.port), |machine| machine)
    else {
        return;
    };
    // A file that was cut on the server's disk.
    let blobs = server.folder.path().join("data/team/store/cas");
    for blob in std::fs::read_dir(blobs).unwrap().flatten() {
        let bytes = std::fs::read(blob.path()).unwrap();
        std::fs::write(blob.path(), &bytes[..bytes.len() / 2]).unwrap();
    }
    second.forget();
    let built = second.build().says("[remote.damaged]");
    assert!(built.compiled() && built.warnings() == 1, "{built:?}");
}

/// Writes a certificate for this machine and the authority that has signed it to `folder`.
fn certificates(folder: &std::path::Path) {
    let mut root = rcgen::CertificateParams::new(Vec::new()).unwrap();
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root_key = rcgen::KeyPair::generate().unwrap();
    let authority = root.self_signed(&root_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(root, root_key);
    let own = rcgen::CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = own.signed_by(&key, &issuer).unwrap().pem();
    // As `openssl req -x509` creates it: signed by itself, and an authority.
    let mut own = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let self_signed = own.self_signed(&key).unwrap().pem();
    for (name, text) in [
        ("ca.pem", authority),
        ("own.pem", certificate),
        ("self.pem", self_signed),
        ("own.key", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

#[test]
fn certificate_of_an_authority_is_not_one_of_a_server() {
    let Some(program) = installed("nginx", "nginx") else { return };
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let tls = format!("ssl_certificate {}; ssl_certificate_key {};", path("self.pem"), path("own.key"));
    let server = nginx(&program, &tls, "");
    let Some(machine) = Machine::new(&format!("https://127.0.0.1:{}/team", server.port)) else { return };
    let stat = machine.with("SSL_CERT_FILE", &path("self.pem")).run(&["cache", "stat"]);
    assert!(!stat.success, "{stat:?}");
    stat.says("[net.tls]").says("CA:FALSE");
}

#[test]
fn nginx_with_a_password_for_writers_is_read_without() {
    let Some(program) = installed("nginx", "nginx") else { return };
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    std::fs::write(&users, "ci:{PLAIN}pw-it\n").unwrap();
    // Workers of nginx may have another user.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let access =
        format!("limit_except GET HEAD {{ auth_basic write; auth_basic_user_file {}; }}", users.display());
    let server = nginx(&program, "", &access);
    let url = format!("http://127.0.0.1:{}/team", server.port);
    let (Some(writer), Some(reader)) = (Machine::new(&url), Machine::new(&url)) else { return };
    writer.build();
    let pushed = writer.run(&["cache", "push"]);
    assert!(!pushed.success, "{pushed:?}");
    pushed.says("[remote.denied]").says("`machine 127.0.0.1 login NAME password PASSWORD`");
    for (password, is_right) in [("pw-not-it", false), ("pw-it", true)] {
        writer.write("home/.netrc", &format!("machine 127.0.0.1 login ci password {password}\n"));
        let pushed = writer.run(&["cache", "push"]);
        assert_eq!(pushed.success, is_right, "{pushed:?}");
        assert!(!pushed.stderr.contains(password), "{pushed:?}");
    }
    let built = reader.build().says("downloaded");
    assert!(!built.compiled() && built.warnings() == 0, "{built:?}");
}

#[test]
fn certificate_of_a_private_authority_is_trusted_if_a_variable_names_it() {
    let Some(program) = installed("nginx", "nginx") else { return };
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let tls = format!("ssl_certificate {}; ssl_certificate_key {};", path("own.pem"), path("own.key"));
    let server = nginx(&program, &tls, "");
    let url = format!("https://127.0.0.1:{}/team/store", server.port);
    let trusting = |machine: Machine| machine.with("SSL_CERT_FILE", &path("ca.pem"));
    let Some((_, second)) = share(&url, trusting) else { return };
    second.forget();
    let Some(stranger) = Machine::new(&url) else { return };
    let built = stranger.build().says("[net.tls]").says("SSL_CERT_FILE");
    assert!(built.compiled() && built.warnings() == 1, "{built:?}");
}

#[test]
fn registry_stores_results() {
    let Some(program) = installed("docker-registry", "docker-registry") else { return };
    let server = Running::start(|folder, port| {
        let settings = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}, delete: {{enabled: true}}}}\n\
             http: {{addr: 127.0.0.1:{port}}}\n",
            folder.display()
        );
        std::fs::write(folder.join("registry.yml"), settings).unwrap();
        let mut command = Command::new(&program);
        command.arg("serve").arg(folder.join("registry.yml"));
        command
    });
    let url = format!("oci://127.0.0.1:{}/team/store", server.port);
    let Some((_, second)) = share(&url, |machine| machine) else { return };
    prunes(&second);
}

#[test]
fn moto_stores_results_as_s3() {
    let Some(moto) = installed("moto_server", "moto") else { return };
    let server = Running::start(|_, port| {
        let mut command = Command::new(&moto);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command
    });
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let with_keys = |machine: Machine| {
        let machine = machine.with("AWS_ACCESS_KEY_ID", "writer").with("AWS_SECRET_ACCESS_KEY", "secret");
        machine.setting(&format!("endpoint = \"{endpoint}\"\nregion = \"eu-central-1\""));
        machine
    };
    let created = Command::new("curl").args(["-sf", "-X", "PUT", &format!("{endpoint}/results")]).status();
    if !created.is_ok_and(|status| status.success()) {
        crate::requirements::skip("moto", "curl cannot create a bucket");
        return;
    }
    let Some(machine) = Machine::new("s3://missing/gpubuild") else { return };
    let missing = with_keys(machine).build().says("NoSuchBucket) [remote.status]");
    assert!(missing.compiled() && missing.warnings() == 1, "{missing:?}");
    let Some((_, second)) = share("s3://results/gpubuild", with_keys) else { return };
    prunes(&second);
}
