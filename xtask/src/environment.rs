//! Virtual environments of Python.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{Outcome, output, root, run};

/// The JAX that the tests in full and the demonstration use.
pub const JAX: &str = "jax==0.10.2";
/// The oldest JAX that is supported.
pub const OLDEST_JAX: &str = "jax==0.6.2";

/// File in the environment that lists, one a line, what was asked for and installed.
const INSTALLED: &str = "installed.txt";

/// A virtual environment in the repository's folder.
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// The environment of that name, with at least these requirements. It is made on first use, and what an
    /// earlier call installed is not installed again.
    pub fn ready(name: &str, requirements: &[&str]) -> Outcome<Self> {
        let environment = Self { folder: root().join(name) };
        if !environment.works() {
            environment.create()?;
        }
        let list = environment.folder.join(INSTALLED);
        let mut installed: Vec<String> =
            fs::read_to_string(&list).unwrap_or_default().lines().map(str::to_owned).collect();
        let missing: Vec<_> =
            requirements.iter().filter(|wish| !installed.iter().any(|have| have == *wish)).collect();
        if !missing.is_empty() {
            // Python compiles what it imports, which is a small part.
            run(environment.pip("install").arg("--no-compile").args(&missing))?;
            // Another version of a package takes the place of the one listed before.
            let package = |requirement: &str| requirement.split(['=', '<', '>']).next().map(str::to_owned);
            installed.retain(|have| missing.iter().all(|wish| package(wish) != package(have)));
            installed.extend(missing.iter().map(|wish| wish.to_string()));
            fs::write(&list, installed.join("\n") + "\n")
                .map_err(|error| format!("{}: {error}", list.display()))?;
        }
        Ok(environment)
    }

    /// Python of this environment.
    pub fn python(&self) -> Command {
        let mut python = Command::new(self.folder.join("bin/python"));
        python.current_dir(root());
        python
    }

    /// A subcommand of pip.
    pub fn pip(&self, subcommand: &str) -> Command {
        let mut pip = self.python();
        pip.args(["-m", "pip", subcommand, "--quiet", "--disable-pip-version-check"]);
        pip
    }

    /// Installs a wheel in place of the same package, whatever the version.
    pub fn install_wheel(&self, wheel: &Path) -> Outcome {
        run(self.pip("install").args(["--force-reinstall", "--no-deps"]).arg(wheel))
    }

    /// The folder of the installed packages.
    pub fn site_packages(&self) -> Outcome<PathBuf> {
        let script = "import sysconfig; print(sysconfig.get_path('purelib'))";
        output(self.python().args(["-c", script])).map(PathBuf::from)
    }

    fn works(&self) -> bool {
        let mut pip = self.pip("--version");
        pip.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn create(&self) -> Outcome {
        let python = find_python()?;
        if !can_make_environments(&python) {
            install_venv_module()?;
        }
        run(Command::new(&python).args(["-m", "venv", "--clear"]).arg(&self.folder))
    }
}

/// A Python that is new enough, by its name on the PATH.
fn find_python() -> Outcome<OsString> {
    const NEW_ENOUGH: &str = "import sys; sys.exit(sys.version_info < (3, 11))";
    let names = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];
    let fits = |name: &&str| {
        let mut python = Command::new(name);
        python.args(["-c", NEW_ENOUGH]).stderr(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    };
    let found = names.into_iter().find(fits).ok_or(
        "Python 3.11 or newer is needed and was not found as python3 or python3.11 to python3.14. \
         Install it (Debian 12: apt-get install python3 python3-venv).",
    )?;
    Ok(found.into())
}

/// Debian leaves the module that makes environments to a package of its own.
fn can_make_environments(python: &OsString) -> bool {
    let mut python = Command::new(python);
    python.args(["-c", "import ensurepip, venv"]).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

fn install_venv_module() -> Outcome {
    const ADVICE: &str = "Python's venv module is missing. Install it (Debian: apt-get install python3-venv)";
    let is_root = output(Command::new("id").arg("-u")).is_ok_and(|user| user == "0");
    if !is_root || !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!("{ADVICE}."));
    }
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-q", "-y"]);
        apt
    };
    run(apt().arg("update"))
        .and_then(|()| run(apt().args(["install", "--no-install-recommends", "python3-venv"])))
        .map_err(|error| format!("{ADVICE}: {error}"))
}
