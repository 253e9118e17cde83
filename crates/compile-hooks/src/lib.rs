//! For build scripts: compiles the kernel hooks of a crate (`src/hooks/NAME/NAME.bpf.c`) with clang.
//! Where there is no clang with a BPF target the crate builds without them, and says so when they are
//! asked for.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// Compiles each hook, which is a folder of `src/hooks`, to `OUT_DIR/NAME.bpf.o` and sets the
/// configuration `kernel_hooks`; without clang it sets nothing. A program that does not compile ends the
/// build.
///
/// # Panics
/// It is not called by a build script, or a program does not compile.
pub fn compile_hooks() {
    println!("cargo:rerun-if-changed=src/hooks");
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rustc-check-cfg=cfg(kernel_hooks)");
    let Some(arch) = arch() else { return };
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    if !has_bpf_target(&clang) {
        println!("cargo:warning=no clang with a BPF target: building without kernel hooks");
        look_again_when_programs_are_installed();
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for name in hooks() {
        compile(&clang, arch, &name, &out);
    }
    println!("cargo:rustc-cfg=kernel_hooks");
}

/// The folders of `src/hooks`.
fn hooks() -> Vec<String> {
    let entries = fs::read_dir("src/hooks").expect("the folder of the hooks");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let folders = paths.filter(|path| path.is_dir());
    let names = folders.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn look_again_when_programs_are_installed() {
    println!("cargo:rerun-if-env-changed=PATH");
    let path = env::var_os("PATH").unwrap_or_default();
    for folder in env::split_paths(&path).filter(|folder| folder.is_dir()) {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
}

/// The kernel's word for the target's architecture, where the hooks know its registers.
fn arch() -> Option<&'static str> {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|it| it == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENDIAN", "little") {
        return None;
    }
    match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => Some("x86"),
        Ok("aarch64") => Some("arm64"),
        _ => None,
    }
}

/// A program that a clang must be able to compile: relocations by a field's name (clang 12).
const PROBE: &str = "struct s { int bits : 3; } __attribute__((preserve_access_index));\n\
                     int f(struct s *s) { return __builtin_preserve_field_info(s->bits, 0); }\n";
const FLAGS: [&str; 7] = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"];

fn has_bpf_target(clang: &str) -> bool {
    let mut probe = Command::new(clang);
    probe.args(FLAGS).args(["-x", "c", "-c", "-", "-o", "/dev/null"]);
    probe.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut probe) = probe.spawn() else { return false };
    // One that does not read its input fails by its status.
    let _ = probe.stdin.take().map(|mut input| input.write_all(PROBE.as_bytes()));
    probe.wait().is_ok_and(|status| status.success())
}

fn compile(clang: &str, arch: &str, hook: &str, out: &Path) {
    let source = format!("src/hooks/{hook}/{hook}.bpf.c");
    let object = out.join(format!("{hook}.bpf.o"));
    assert!(fs::exists(&source).unwrap_or(false), "{source} is missing");
    let mut clang = Command::new(clang);
    clang.args(FLAGS);
    // Absolute paths of the machine that built it have no place in the binary.
    clang.args(["-fdebug-compilation-dir", "."]);
    clang.arg(format!("-D__TARGET_ARCH_{arch}"));
    let status = clang.args(["-c", &source, "-o"]).arg(object).status();
    let compiled = status.is_ok_and(|status| status.success());
    assert!(compiled, "{source} does not compile; clang's messages are above");
}
