//! Our mirror of XLA's structs against the C headers that jaxlib ships.
//!
//! `MESHSOLVE_JAXLIB_HEADERS` lists include folders, separated by colons, one for each jaxlib to
//! compare with: `…/site-packages/jaxlib/include`.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};

use meshsolve_xla_ffi::sys;

/// A field: its name in C, its offset and size in bytes.
type Field = (String, usize, usize);

/// The structs and constants of a header.
#[derive(Default)]
struct Header {
    structs: HashMap<String, Vec<Field>>,
    constants: HashMap<String, i64>,
}

impl Header {
    fn read(folder: &Path, names: &[&str]) -> Self {
        let mut header = Self::default();
        for name in names {
            let path = folder.join("xla/ffi/api").join(name);
            header.parse(&fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
        }
        header
    }

    fn parse(&mut self, text: &str) {
        let text = without_comments(text);
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("#define ")) {
            if let Some((name, value)) = line.trim().split_once(char::is_whitespace)
                && let Ok(value) = value.trim().parse()
            {
                self.constants.insert(name.to_owned(), value);
            }
        }
        let code: String =
            text.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
        let mut rest = code.as_str();
        while let Some(open) = rest.find('{') {
            let words: Vec<&str> =
                rest[..open].rsplit([';', '}', ')']).next().unwrap_or("").split_whitespace().collect();
            let close = open + rest[open..].find('}').expect("a closing brace");
            let body = &rest[open + 1..close];
            match words[..] {
                [.., "struct", name] => self.parse_struct(name, body),
                ["enum", ..] | ["typedef", "enum", ..] => self.parse_enum(body),
                // `extern "C" {` and the like hold further declarations.
                _ => {
                    rest = &rest[open + 1..];
                    continue;
                }
            }
            rest = &rest[close + 1..];
        }
    }

    fn parse_enum(&mut self, body: &str) {
        for entry in body.split(',') {
            if let Some((name, value)) = entry.split_once('=')
                && let Ok(value) = value.trim().parse()
            {
                self.constants.insert(name.trim().to_owned(), value);
            }
        }
    }

    fn parse_struct(&mut self, name: &str, body: &str) {
        let mut fields = Vec::new();
        let (mut end, mut alignment) = (0usize, 1usize);
        for declaration in body.split(';').map(str::trim).filter(|declaration| !declaration.is_empty()) {
            let (field, size, align) = self.field(declaration);
            let offset = end.next_multiple_of(align);
            (end, alignment) = (offset + size, alignment.max(align));
            fields.push((field, offset, size));
        }
        // The padding at the end, as a field without a name.
        fields.push((String::new(), end, end.next_multiple_of(alignment) - end));
        self.structs.insert(name.to_owned(), fields);
    }

    /// Name, size and alignment of a declared field.
    fn field(&self, declaration: &str) -> (String, usize, usize) {
        let last_word = |text: &str| {
            let end = text.trim_end();
            end[end.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |i| i + 1)..].to_owned()
        };
        if let Some(function) = declaration.strip_prefix("_XLA_FFI_API_STRUCT_FIELD(") {
            return (function.trim_end_matches(')').to_owned(), 8, 8);
        }
        if let Some((_, pointer)) = declaration.split_once("(*") {
            return (pointer.split(')').next().unwrap_or("").to_owned(), 8, 8);
        }
        let name = last_word(declaration);
        let kind = declaration[..declaration.len() - name.len()].trim();
        let kind = kind.strip_prefix("struct ").unwrap_or(kind);
        let (size, align) = match kind {
            _ if kind.ends_with('*') => (8, 8),
            "size_t" | "int64_t" => (8, 8),
            "int" | "int32_t" | "uint32_t" | "XLA_FFI_Handler_Traits" => (4, 4),
            // Enumerations are ints.
            "XLA_FFI_Error_Code"
            | "XLA_FFI_DataType"
            | "XLA_FFI_ExecutionStage"
            | "XLA_FFI_Extension_Type"
            | "XLA_FFI_InternalExtension_Type"
            | "XLA_FFI_CollectiveGroupMode" => (4, 4),
            // Every struct of this API holds at least one 8-byte field.
            _ => (self.size(kind).unwrap_or_else(|| panic!("unknown type in `{declaration}`")), 8),
        };
        (name, size, align)
    }

    fn size(&self, name: &str) -> Option<usize> {
        self.structs.get(name)?.last().map(|(_, offset, padding)| offset + padding)
    }

    fn minor(&self) -> i64 {
        self.constants["XLA_FFI_API_MINOR"]
    }
}

fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('/') {
        let (before, comment) = rest.split_at(start);
        code.push_str(before);
        let end = match comment.as_bytes().get(1) {
            Some(b'/') => comment.find('\n').unwrap_or(comment.len()),
            Some(b'*') => comment.find("*/").map_or(comment.len(), |end| end + 2),
            _ => {
                code.push('/');
                1
            }
        };
        rest = &comment[end..];
    }
    code + rest
}

/// One of our structs: C name, fields, size.
struct Ours {
    name: &'static str,
    fields: Vec<Field>,
    size: usize,
}

/// Describes one of our structs. Where a field has another name in C, that follows it.
macro_rules! ours {
    ($name:literal = $type:ident { $($field:ident $(as $c_name:literal)?),* $(,)? }) => {
        Ours {
            name: $name,
            fields: vec![$({
                #[allow(unused_variables)]
                let name = stringify!($field);
                $(let name = $c_name;)?
                let size = field_size(|s: &sys::$type| &raw const s.$field);
                (name.to_owned(), offset_of!(sys::$type, $field), size)
            }),*],
            size: size_of::<sys::$type>(),
        }
    };
}

fn field_size<S, F>(_: impl Fn(&S) -> *const F) -> usize {
    size_of::<F>()
}

/// Our structs for a runtime of this minor.
fn ours(minor: i64) -> Vec<Ours> {
    let mut all = vec![
        ours!(
            "XLA_FFI_Api_Version" = ApiVersion { struct_size, extension_start, major_version, minor_version }
        ),
        ours!("XLA_FFI_TypeId" = TypeId { type_id }),
        ours!("XLA_FFI_ByteSpan" = ByteSpan { ptr, len }),
        ours!("XLA_FFI_Scalar" = Scalar { dtype, value }),
        ours!("XLA_FFI_Array" = Array { dtype, size, data }),
        ours!("XLA_FFI_Buffer" = Buffer { struct_size, extension_start, dtype, data, rank, dims }),
        ours!("XLA_FFI_Args" = Args { struct_size, extension_start, size, types, args }),
        ours!("XLA_FFI_Rets" = Rets { struct_size, extension_start, size, types, rets }),
        ours!("XLA_FFI_Attrs" = Attrs { struct_size, extension_start, size, types, names, attrs }),
        ours!(
            "XLA_FFI_CallFrame" =
                CallFrame { struct_size, extension_start, api, ctx, stage, args, rets, attrs, future }
        ),
        ours!("XLA_FFI_Metadata_Extension" = MetadataExtension { extension_base, metadata }),
        ours!("XLA_FFI_Error_Create_Args" = ErrorCreateArgs { struct_size, extension_start, message, errc }),
        ours!("XLA_FFI_Error_Destroy_Args" = ErrorDestroyArgs { struct_size, extension_start, error }),
        ours!("XLA_FFI_Stream_Get_Args" = StreamGetArgs { struct_size, extension_start, ctx, stream }),
        ours!("XLA_FFI_Future_Create_Args" = FutureCreateArgs { struct_size, extension_start, future }),
        ours!(
            "XLA_FFI_Future_SetAvailable_Args" =
                FutureSetAvailableArgs { struct_size, extension_start, future }
        ),
        ours!(
            "XLA_FFI_Future_SetError_Args" =
                FutureSetErrorArgs { struct_size, extension_start, future, error }
        ),
        ours!("XLA_FFI_RunId_Get_Args" = RunIdGetArgs { struct_size, extension_start, ctx, run_id }),
        ours!(
            "XLA_FFI_DeviceOrdinal_Get_Args" =
                DeviceOrdinalGetArgs { struct_size, extension_start, ctx, device_ordinal }
        ),
    ];
    all.push(match minor {
        1 => ours!(
            "XLA_FFI_State_Set_Args" =
                StateSetArgsMinor1 { struct_size, extension_start, ctx, type_id, state, deleter }
        ),
        2 => ours!(
            "XLA_FFI_State_Set_Args" =
                StateArgsWithoutStage { struct_size, extension_start, ctx, type_id, state }
        ),
        _ => ours!(
            "XLA_FFI_State_Set_Args" = StateArgs { struct_size, extension_start, ctx, stage, type_id, state }
        ),
    });
    all.push(match minor {
        1 | 2 => ours!(
            "XLA_FFI_State_Get_Args" =
                StateArgsWithoutStage { struct_size, extension_start, ctx, type_id, state }
        ),
        _ => ours!(
            "XLA_FFI_State_Get_Args" = StateArgs { struct_size, extension_start, ctx, stage, type_id, state }
        ),
    });
    if minor == 1 {
        all.push(ours!(
            "XLA_FFI_TypeId_Register_Args" =
                TypeRegisterArgsMinor1 { struct_size, extension_start, name, type_id }
        ));
    } else {
        all.push(ours!(
            "XLA_FFI_Type_Register_Args" =
                TypeRegisterArgs { struct_size, extension_start, name, type_id, type_info }
        ));
        all.push(ours!("XLA_FFI_TypeInfo" = TypeInfo { struct_size, extension_start, deleter }));
    }
    if minor < 4 {
        all.push(ours!("XLA_FFI_Extension_Base" = ExtensionBase { struct_size, kind as "type", next }));
    } else {
        all.push(ours!("XLA_FFI_InternalExtension" = ExtensionBase { struct_size, kind as "type", next }));
        all.push(ours!(
            "XLA_FFI_Error_GetDetails_Args" =
                ErrorGetDetailsArgs { struct_size, extension_start, error, message, errc }
        ));
        all.push(ours!(
            "XLA_FFI_ExtensionId" = ContextExtensionId { extension_type, major_version, minor_version }
        ));
        all.push(ours!("XLA_FFI_Extension" = ContextExtension { struct_size, id, next }));
        all.push(ours!(
            "XLA_FFI_InvokeContext_FindExtension_Args" =
                FindExtensionArgs { struct_size, extension_start, ctx, extension_type, extension }
        ));
    }
    all
}

fn collectives() -> Vec<Ours> {
    vec![
        ours!("XLA_FFI_ReplicaGroup" = ReplicaGroup { ids, size }),
        ours!(
            "XLA_FFI_Communicator_Request_Args" = RequestCommunicatorArgs {
                struct_size,
                extension_start,
                group_mode,
                groups,
                num_groups,
                communication_id
            }
        ),
        ours!(
            "XLA_FFI_Communicator_Get_Args" = GetCommunicatorArgs {
                struct_size,
                extension_start,
                group_mode,
                groups,
                num_groups,
                communication_id,
                communicator
            }
        ),
        ours!("XLA_FFI_Collectives_Extension" = CollectivesExtension { base as "extension_base", state, request_communicator, get_communicator }),
    ]
}

/// Structs of which a runtime may know only the beginning.
fn growing(minor: i64) -> [Ours; 3] {
    [
        ours!("XLA_FFI_Metadata" = Metadata { struct_size, api_version, traits, state_type_id }),
        // Of an older runtime, all but the code.
        if minor < 4 {
            ours!(
                "XLA_FFI_Error_GetMessage_Args" =
                    ErrorGetDetailsArgs { struct_size, extension_start, error, message, errc }
            )
        } else {
            ours!(
                "XLA_FFI_Error_GetDetails_Args" =
                    ErrorGetDetailsArgs { struct_size, extension_start, error, message, errc }
            )
        },
        ours!("XLA_FFI_Api" = Api {
            struct_size, extension_start, api_version, internal_api,
            error_create as "XLA_FFI_Error_Create",
            error_get_details as "XLA_FFI_Error_GetDetails",
            error_destroy as "XLA_FFI_Error_Destroy",
            handler_register as "XLA_FFI_Handler_Register",
            stream_get as "XLA_FFI_Stream_Get",
            type_register as "XLA_FFI_Type_Register",
            context_get as "XLA_FFI_InvokeContext_Get",
            state_set as "XLA_FFI_State_Set",
            state_get as "XLA_FFI_State_Get",
            device_memory_allocate as "XLA_FFI_DeviceMemory_Allocate",
            device_memory_free as "XLA_FFI_DeviceMemory_Free",
            thread_pool_schedule as "XLA_FFI_ThreadPool_Schedule",
            thread_pool_num_threads as "XLA_FFI_ThreadPool_NumThreads",
            future_create as "XLA_FFI_Future_Create",
            future_set_available as "XLA_FFI_Future_SetAvailable",
            future_set_error as "XLA_FFI_Future_SetError",
            run_id_get as "XLA_FFI_RunId_Get",
            device_ordinal_get as "XLA_FFI_DeviceOrdinal_Get",
            find_extension as "XLA_FFI_InvokeContext_FindExtension",
        }),
    ]
}

/// Today's name of a slot that was renamed.
fn current_name(name: &str) -> &str {
    match name {
        "XLA_FFI_Error_GetMessage" => "XLA_FFI_Error_GetDetails",
        "XLA_FFI_TypeId_Register" => "XLA_FFI_Type_Register",
        "XLA_FFI_ExecutionContext_Get" => "XLA_FFI_InvokeContext_Get",
        name => name,
    }
}

fn named(fields: &[Field]) -> Vec<Field> {
    fields
        .iter()
        .filter(|(name, ..)| !name.is_empty())
        .map(|(name, offset, size)| (current_name(name).to_owned(), *offset, *size))
        .collect()
}

fn compare(header: &Header, ours: &Ours) -> Result<(), String> {
    let Some(theirs) = header.structs.get(ours.name) else { return Err(format!("no struct {}", ours.name)) };
    let theirs = named(theirs);
    if theirs != ours.fields {
        return Err(format!("{}: header {theirs:?}, ours {:?}", ours.name, ours.fields));
    }
    match header.size(ours.name) {
        Some(size) if size == ours.size => Ok(()),
        size => Err(format!("{}: header has {size:?} bytes, ours {}", ours.name, ours.size)),
    }
}

fn compare_beginning(header: &Header, ours: &Ours) -> Result<(), String> {
    let Some(theirs) = header.structs.get(ours.name) else { return Err(format!("no struct {}", ours.name)) };
    let theirs = named(theirs);
    if theirs.len() < 3 || !ours.fields.starts_with(&theirs) {
        return Err(format!("{}: header {theirs:?}, ours {:?}", ours.name, ours.fields));
    }
    Ok(())
}

fn constants() -> Vec<(&'static str, i64)> {
    use sys::{attribute_type, data_type, error_code, stage};
    [
        ("XLA_FFI_API_MAJOR", sys::API_MAJOR),
        ("XLA_FFI_Extension_Metadata", sys::EXTENSION_METADATA),
        ("XLA_FFI_ArgType_BUFFER", sys::BUFFER_OPERAND),
        ("XLA_FFI_RetType_BUFFER", sys::BUFFER_OPERAND),
        ("XLA_FFI_Error_Code_UNKNOWN", error_code::UNKNOWN),
        ("XLA_FFI_Error_Code_INVALID_ARGUMENT", error_code::INVALID_ARGUMENT),
        ("XLA_FFI_Error_Code_DEADLINE_EXCEEDED", error_code::DEADLINE_EXCEEDED),
        ("XLA_FFI_Error_Code_RESOURCE_EXHAUSTED", error_code::RESOURCE_EXHAUSTED),
        ("XLA_FFI_Error_Code_FAILED_PRECONDITION", error_code::FAILED_PRECONDITION),
        ("XLA_FFI_Error_Code_UNIMPLEMENTED", error_code::UNIMPLEMENTED),
        ("XLA_FFI_Error_Code_INTERNAL", error_code::INTERNAL),
        ("XLA_FFI_DataType_PRED", data_type::PRED),
        ("XLA_FFI_DataType_S8", data_type::S8),
        ("XLA_FFI_DataType_S16", data_type::S16),
        ("XLA_FFI_DataType_S32", data_type::S32),
        ("XLA_FFI_DataType_S64", data_type::S64),
        ("XLA_FFI_DataType_U8", data_type::U8),
        ("XLA_FFI_DataType_U16", data_type::U16),
        ("XLA_FFI_DataType_U32", data_type::U32),
        ("XLA_FFI_DataType_U64", data_type::U64),
        ("XLA_FFI_DataType_F16", data_type::F16),
        ("XLA_FFI_DataType_F32", data_type::F32),
        ("XLA_FFI_DataType_F64", data_type::F64),
        ("XLA_FFI_DataType_C64", data_type::C64),
        ("XLA_FFI_DataType_BF16", data_type::BF16),
        ("XLA_FFI_DataType_C128", data_type::C128),
        ("XLA_FFI_AttrType_ARRAY", attribute_type::ARRAY),
        ("XLA_FFI_AttrType_DICTIONARY", attribute_type::DICTIONARY),
        ("XLA_FFI_AttrType_SCALAR", attribute_type::SCALAR),
        ("XLA_FFI_AttrType_STRING", attribute_type::STRING),
        ("XLA_FFI_ExecutionStage_INSTANTIATE", stage::INSTANTIATE),
        ("XLA_FFI_ExecutionStage_PREPARE", stage::PREPARE),
        ("XLA_FFI_ExecutionStage_INITIALIZE", stage::INITIALIZE),
        ("XLA_FFI_ExecutionStage_EXECUTE", stage::EXECUTE),
    ]
    .map(|(name, value)| (name, i64::from(value)))
    .to_vec()
}

/// Everything in which the headers in `folder` differ from our mirror.
fn differences(folder: &Path) -> Vec<String> {
    let has_collectives = folder.join("xla/ffi/api/collectives_c_api.h").exists();
    let names: &[&str] = if has_collectives { &["c_api.h", "collectives_c_api.h"] } else { &["c_api.h"] };
    let header = Header::read(folder, names);
    let minor = header.minor();
    let mut expected_constants = constants();
    let mut exact = ours(minor);
    if has_collectives {
        exact.extend(collectives());
        expected_constants.push(("XLA_FFI_Extension_Collectives", sys::EXTENSION_COLLECTIVES));
        expected_constants.push(("XLA_FFI_GROUP_FLATTENED_ID", i64::from(sys::GROUP_MODE_FLATTENED_ID)));
        expected_constants.push(("XLA_FFI_Extension_Collectives_MajorVersion", 0));
    }
    let mut differences: Vec<String> = exact.iter().filter_map(|ours| compare(&header, ours).err()).collect();
    differences.extend(growing(minor).iter().filter_map(|ours| compare_beginning(&header, ours).err()));
    // The facts by which a table is read, from the record of each minor.
    let table = match minor {
        1..=3 => 192,
        _ => 200,
    };
    if header.size("XLA_FFI_Api") != Some(table) {
        differences
            .push(format!("minor {minor}: table of {:?} bytes, not {table}", header.size("XLA_FFI_Api")));
    }
    for (name, value) in expected_constants {
        // Renamed together with its enumeration in minor 4.
        let found = header
            .constants
            .get(name)
            .or_else(|| header.constants.get(&name.replace("_Extension_", "_InternalExtension_")));
        if found != Some(&value) {
            differences.push(format!("{name}: header {found:?}, ours {value}"));
        }
    }
    differences
}

#[test]
fn our_structs_are_those_of_the_headers() {
    let Some(folders) = env::var_os("MESHSOLVE_JAXLIB_HEADERS").filter(|folders| !folders.is_empty()) else {
        eprintln!("skipped: MESHSOLVE_JAXLIB_HEADERS names no include folders of jaxlib");
        return;
    };
    let folders: Vec<PathBuf> = env::split_paths(&folders).collect();
    for folder in &folders {
        let differences = differences(folder);
        assert!(differences.is_empty(), "{}:\n{}", folder.display(), differences.join("\n"));
        eprintln!("compared with {}", folder.display());
    }
}

#[test]
fn the_parser_reads_c_as_a_compiler_does() {
    let mut header = Header::default();
    header.parse(
        r#"
        #define XLA_FFI_API_MINOR 3
        extern "C" {
        typedef enum { XLA_FFI_A = 1, XLA_FFI_B = -7, } XLA_FFI_DataType; /* struct No { int a; } */
        typedef struct Pair { int first; const char* second; } Pair; // int third;
        struct Outer {
          uint32_t small;
          Pair pair;
          struct Outer* next;
          void (*deleter)(void* object);
          _XLA_FFI_API_STRUCT_FIELD(Some_Function);
          XLA_FFI_DataType last;
        };
        }"#,
    );
    assert_eq!((header.minor(), header.constants["XLA_FFI_A"], header.constants["XLA_FFI_B"]), (3, 1, -7));
    assert_eq!(header.size("Pair"), Some(16));
    let field = |name: &str, offset, size| (name.to_owned(), offset, size);
    let expected = [
        field("small", 0, 4),
        field("pair", 8, 16),
        field("next", 24, 8),
        field("deleter", 32, 8),
        field("Some_Function", 40, 8),
        field("last", 48, 4),
    ];
    assert_eq!(named(&header.structs["Outer"]), expected);
    assert_eq!(header.size("Outer"), Some(56));
    assert!(!header.structs.contains_key("No"));
}

#[test]
fn a_changed_header_is_noticed() {
    let parse = |text: &str| {
        let mut header = Header::default();
        header.parse(text);
        header
    };
    let scalar = ours!("XLA_FFI_Scalar" = Scalar { dtype, value });
    let compared = |text| compare(&parse(text), &scalar);
    assert_eq!(compared("struct XLA_FFI_Scalar { XLA_FFI_DataType dtype; void* value; };"), Ok(()));
    for changed in [
        "struct XLA_FFI_Scalar { void* value; XLA_FFI_DataType dtype; };",
        "struct XLA_FFI_Scalar { XLA_FFI_DataType dtype; void* data; };",
        "struct XLA_FFI_Scalar { int64_t dtype; void* value; };",
        "struct XLA_FFI_Scalar { XLA_FFI_DataType dtype; void* value; int more; };",
        "struct XLA_FFI_Other { int a; };",
    ] {
        assert!(compared(changed).is_err(), "{changed}");
    }
}
