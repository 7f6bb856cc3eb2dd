//! Local stand-in for the Rust-CUDA crate `cuda_std_macros`: the `#[kernel]` attribute.

use proc_macro::{TokenStream, TokenTree};

/// Marks a function as an entry point of the GPU.
///
/// For the device it becomes `#[unsafe(no_mangle)] pub unsafe extern "ptx-kernel" fn`; on the host it
/// stays an ordinary function, which the emulator of `cuda_std` can run.
///
/// ```
/// #[cuda_std_macros::kernel]
/// pub unsafe fn does_nothing(_count: u64) {}
/// // SAFETY: the function does nothing.
/// unsafe { does_nothing(3) };
/// ```
///
/// The function must be unsafe: nothing checks what a launch passes.
///
/// ```compile_fail
/// #[cuda_std_macros::kernel]
/// pub fn safe_kernel(_count: u64) {}
/// ```
///
/// It must not be generic: an entry point has one name.
///
/// ```compile_fail
/// #[cuda_std_macros::kernel]
/// pub unsafe fn generic_kernel<T>(_value: T) {}
/// ```
#[proc_macro_attribute]
pub fn kernel(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    match expand(item) {
        Ok(tokens) => tokens,
        Err(message) => format!("compile_error!({message:?});").parse().expect("a macro call is valid Rust"),
    }
}

fn expand(item: TokenStream) -> Result<TokenStream, &'static str> {
    let tokens: Vec<TokenTree> = item.clone().into_iter().collect();
    let is_word =
        |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(i) if i.to_string() == word);
    let at = tokens.iter().position(|t| is_word(t, "fn")).ok_or("#[kernel] belongs on a function")?;
    if !at.checked_sub(1).is_some_and(|before| is_word(&tokens[before], "unsafe")) {
        return Err("a kernel must be an `unsafe fn` without an ABI of its own");
    }
    if matches!(tokens.get(at + 2), Some(TokenTree::Punct(p)) if p.as_char() == '<') {
        return Err("a kernel cannot be generic; call a generic function from it");
    }
    let parse = |text: &str| text.parse::<TokenStream>().expect("the text is valid Rust");
    let mut expanded = parse("#[cfg(target_os = \"cuda\")] #[unsafe(no_mangle)]");
    expanded.extend(tokens[..at].iter().cloned());
    expanded.extend(parse("extern \"ptx-kernel\""));
    expanded.extend(tokens[at..].iter().cloned());
    expanded.extend(parse("#[cfg(not(target_os = \"cuda\"))]"));
    expanded.extend(item);
    Ok(expanded)
}
