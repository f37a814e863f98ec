//! `${NAME}` in values of a file: the environment variable NAME stands there. `$${` is `${` itself; a `$` alone is a `$`.

/// The value of a variable; `None` if it is not set.
pub(super) type Variables = fn(&str) -> Option<Result<String, ()>>;

/// The variables of this process; one whose value is not UTF-8 is `Err`.
pub(super) fn of_process(name: &str) -> Option<Result<String, ()>> {
    std::env::var_os(name).map(|value| value.into_string().map_err(drop))
}

/// `text` with the values of `variables` in the place of their names. An error never shows a value.
pub(super) fn expanded(text: &str, variables: Variables) -> Result<String, String> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("${") {
        let (before, behind) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = behind;
            continue;
        }
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let name =
            behind.split_once('}').filter(|(name, _)| !name.is_empty() && name.bytes().all(is_of_name));
        let Some((name, behind)) = name else {
            return Err(
                "behind ${ the name of an environment variable is missing, and } behind it; write $${ for ${ itself"
                    .to_owned(),
            );
        };
        out.push_str(before);
        out.push_str(&value(name, variables)?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

fn value(name: &str, variables: Variables) -> Result<String, String> {
    match variables(name) {
        Some(Ok(value)) if value.is_empty() => Err(format!("the environment variable {name} is empty")),
        Some(Ok(value)) => Ok(value),
        Some(Err(())) => Err(format!("the environment variable {name} is not UTF-8")),
        None => {
            Err(format!("the environment variable {name} is not set; set it, or write $${{ for ${{ itself"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(name: &str) -> Option<Result<String, ()>> {
        match name {
            "A" => Some(Ok("${B}$".to_owned())),
            "B_2" => Some(Ok("b".to_owned())),
            "EMPTY" => Some(Ok(String::new())),
            "BYTES" => Some(Err(())),
            _ => None,
        }
    }

    #[test]
    fn variables_stand_for_their_values_once() {
        let cases = [
            ("", ""),
            ("$ $A $$ {A} $", "$ $A $$ {A} $"),
            ("${B_2}", "b"),
            ("x${B_2}-${B_2}y", "xb-by"),
            ("${A}", "${B}$"),
            ("$${B_2} $$${B_2}", "${B_2} $${B_2}"),
        ];
        for (text, expected) in cases {
            assert_eq!(expanded(text, variables), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_refused() {
        let cases = [
            ("${NONE}", "the environment variable NONE is not set"),
            ("${EMPTY}", "the environment variable EMPTY is empty"),
            ("${BYTES}", "the environment variable BYTES is not UTF-8"),
            ("${", "behind ${ the name"),
            ("${}", "behind ${ the name"),
            ("${A", "behind ${ the name"),
            ("${A-B}", "behind ${ the name"),
            ("${B_2:-x}", "behind ${ the name"),
        ];
        for (text, expected) in cases {
            let error = expanded(text, variables).expect_err(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
