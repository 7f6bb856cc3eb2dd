//! Finding a shared library and its functions while the program runs.
//!
//! A program that uses these crates starts on any machine. What is missing shows only where it is asked
//! for, as an [`Error`] that says how to get it; nothing here panics.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{self, RTLD_GLOBAL, RTLD_NOW};

/// `dlopen` flag: only take a library that the process already holds (same value on every Linux but MIPS).
const RTLD_NOLOAD: i32 = 0x4;
/// `dlopen` flag: keep the library until the process ends. NCCL starts threads of its own, which must not
/// lose their code.
const RTLD_NODELETE: i32 = 0x1000;

/// What identifies a library, and where pip puts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryInfo {
    /// The name that people use, for messages.
    pub name: &'static str,
    /// File name with the ABI version, for example `libnccl.so.2`.
    pub file: &'static str,
    /// Folders below `site-packages` in which the library's wheels have put it.
    pub wheel_folders: &'static [&'static str],
    /// The pip package that brings it.
    pub pip_package: &'static str,
}

/// The folders in which libraries are looked for.
///
/// Each folder may be a `site-packages` folder or one that holds the libraries themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPath {
    folders: Vec<PathBuf>,
}

impl SearchPath {
    /// Looks in these folders, in this order, before the system loader's own.
    pub fn new(folders: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self { folders: folders.into_iter().map(Into::into).collect() }
    }

    /// Every full path at which the library may lie, in the order of the search.
    pub fn candidates(&self, info: &LibraryInfo) -> Vec<PathBuf> {
        let wheel_first = |folder: &PathBuf| {
            let in_wheels = info.wheel_folders.iter().map(|below| folder.join(below).join(info.file));
            in_wheels.chain([folder.join(info.file)]).collect::<Vec<_>>()
        };
        self.folders.iter().flat_map(wheel_first).collect()
    }
}

/// A library, or one of its functions, that is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No file of that name could be loaded.
    #[error(
        "{name} ({file}) could not be loaded.\n{}`pip install {pip_package}` brings it and what it needs; \
         otherwise name the folder that holds it.",
        Tries(tries)
    )]
    NotFound {
        /// Name of the library.
        name: &'static str,
        /// File name of the library.
        file: &'static str,
        /// The pip package that brings it.
        pip_package: &'static str,
        /// Every attempt: the path or name, and what the system loader answered.
        tries: Vec<(PathBuf, String)>,
    },
    /// The library was loaded but lacks a function.
    #[error(
        "{name} has no function {symbol}: {} is version {}. Install a newer one with `pip install --upgrade \
         {pip_package}`.",
        path.display(),
        version.as_deref().unwrap_or("unknown")
    )]
    MissingSymbol {
        /// Name of the library.
        name: &'static str,
        /// The function that was asked for.
        symbol: &'static str,
        /// Where the library was loaded from.
        path: PathBuf,
        /// The version that it reports, if it does.
        version: Option<String>,
        /// The pip package that brings it.
        pip_package: &'static str,
    },
}

struct Tries<'a>(&'a [(PathBuf, String)]);

impl fmt::Display for Tries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(path, answer)| writeln!(f, "  tried {}: {answer}", path.display()))
    }
}

/// A loaded library. It stays loaded until the process ends, even if this value is dropped.
#[derive(Debug)]
pub struct Library {
    info: LibraryInfo,
    path: PathBuf,
    version: OnceLock<String>,
    handle: unix::Library,
}

impl Library {
    /// Finds and loads a library: the copy that the process already holds, else the first candidate of
    /// `search` that exists, else whatever the system loader finds by the file name.
    ///
    /// The copy in use comes first because a communicator made by one copy of NCCL means nothing to another.
    ///
    /// # Errors
    /// [`Error::NotFound`] with every attempt. A candidate that exists but does not load ends the search:
    /// taking another version in its place would hide the reason.
    pub fn find(info: LibraryInfo, search: &SearchPath) -> Result<Self, Error> {
        let by_name = Path::new(info.file);
        if let Ok(library) = Self::open(info, by_name, RTLD_NOLOAD) {
            return Ok(library);
        }
        let candidates = search.candidates(&info);
        let chosen = candidates.iter().find(|path| path.is_file()).map_or(by_name, |path| path.as_path());
        Self::open(info, chosen, 0).map_err(|answer| {
            let absent = candidates.iter().take_while(|path| path.as_path() != chosen);
            let mut tries: Vec<_> = absent.map(|path| (path.clone(), "no such file".to_owned())).collect();
            tries.push((chosen.to_owned(), answer));
            Self::not_found(info, tries)
        })
    }

    /// Loads the library from this file.
    ///
    /// # Errors
    /// [`Error::NotFound`] with the answer of the system loader.
    pub fn load(info: LibraryInfo, path: &Path) -> Result<Self, Error> {
        Self::open(info, path, 0).map_err(|answer| Self::not_found(info, vec![(path.to_owned(), answer)]))
    }

    fn not_found(info: LibraryInfo, tries: Vec<(PathBuf, String)>) -> Error {
        Error::NotFound { name: info.name, file: info.file, pip_package: info.pip_package, tries }
    }

    fn open(info: LibraryInfo, path: &Path, extra_flags: i32) -> Result<Self, String> {
        // Global, so that a library which is loaded later and needs this one takes the copy already here.
        let flags = RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE | extra_flags;
        // SAFETY: runs the library's initialisers. The libraries of these crates are written to be loaded at
        // any time and from any thread, and are never unloaded.
        let handle = unsafe { unix::Library::open(Some(path), flags) }.map_err(|error| answer(&error))?;
        Ok(Self { info, path: path.to_owned(), version: OnceLock::new(), handle })
    }

    /// The path, or only the file name where the system loader chose.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version that was recorded for this library.
    pub fn version(&self) -> Option<&str> {
        self.version.get().map(String::as_str)
    }

    /// Records the library's own version, once it has told it, for later messages.
    pub fn record_version(&self, version: String) {
        // The first answer stands; a library does not change its version.
        let _ = self.version.set(version);
    }

    /// Looks a function up.
    ///
    /// # Safety
    /// `F` is a pointer to a function of exactly the signature that the symbol has.
    pub unsafe fn function<F: Copy>(&self, symbol: &str) -> Option<F> {
        // SAFETY: the caller promises the signature; the library is never unloaded.
        unsafe { self.handle.get::<F>(symbol) }.ok().map(|found| *found)
    }

    /// The error for a function that this library lacks.
    pub fn missing(&self, symbol: &'static str) -> Error {
        Error::MissingSymbol {
            name: self.info.name,
            symbol,
            path: self.path.clone(),
            version: self.version().map(str::to_owned),
            pip_package: self.info.pip_package,
        }
    }
}

/// What the system loader said: libloading keeps it behind its own words.
fn answer(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), answer)
}

/// Turns a block of C declarations into a table of functions that are looked up at run time.
///
/// Each function becomes a method of the same name and arguments. It returns the C function's value in a
/// `Result`: the error is [`loader::Error::MissingSymbol`](crate::loader::Error::MissingSymbol) if this
/// version of the library lacks the function.
#[macro_export]
macro_rules! function_table {
    (
        $(#[$attribute:meta])*
        pub struct $table:ident;
        unsafe extern "C" {
            $( $(#[$_must_use:meta])* pub fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $answer:ty; )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub struct $table {
            library: $crate::loader::Library,
            $( $name: Option<unsafe extern "C" fn($($kind),*) -> $answer>, )*
        }

        impl $table {
            /// Looks up all functions. Those that the library lacks answer an error when they are called.
            ///
            /// # Safety
            /// The library is the one that the declarations were made for, in this or another version.
            pub unsafe fn from_library(library: $crate::loader::Library) -> Self {
                Self {
                    // SAFETY: the signature is the header's; the caller promises the library.
                    $( $name: unsafe { library.function(stringify!($name)) }, )*
                    library,
                }
            }

            /// The library that the functions are taken from.
            pub fn library(&self) -> &$crate::loader::Library {
                &self.library
            }

            $(
                #[doc = concat!("Calls `", stringify!($name), "`.\n\n# Errors\nThe library lacks it.\n\n")]
                /// # Safety
                /// The arguments keep to the library's documentation of the function.
                pub unsafe fn $name(
                    &self,
                    $($argument: $kind),*
                ) -> Result<$answer, $crate::loader::Error> {
                    let function = self.$name.ok_or_else(|| self.library.missing(stringify!($name)))?;
                    // SAFETY: the signature is the header's; the caller keeps to the documentation.
                    Ok(unsafe { function($($argument),*) })
                }
            )*
        }
    };
}
