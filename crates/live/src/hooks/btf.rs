//! Names of an enumeration of the running kernel, from its BTF. Read first:
//! Documentation/bpf/btf.rst of the kernel.

use std::collections::BTreeMap;

/// `struct btf_header`.
const HEADER_BYTES: usize = 24;
const MAGIC: u16 = 0xeb9f;
const KIND_ENUM: u32 = 6;

/// Values of `enum name` with their names; empty where the kernel has none.
pub(super) fn enum_names(btf: &[u8], name: &str) -> BTreeMap<u32, String> {
    find(btf, name).unwrap_or_default()
}

fn find(btf: &[u8], wanted: &str) -> Option<BTreeMap<u32, String>> {
    if u16::from_ne_bytes(*btf.first_chunk()?) != MAGIC {
        return None;
    }
    let header_bytes = word(btf, 4)? as usize;
    let [types_at, types_bytes, strings_at] = [8, 12, 16].map(|at| word(btf, at));
    let types = btf.get(header_bytes + types_at? as usize..)?.get(..types_bytes? as usize)?;
    let strings = btf.get(header_bytes.max(HEADER_BYTES) + strings_at? as usize..)?;
    let mut at = 0;
    while at < types.len() {
        let (name, info) = (word(types, at)?, word(types, at + 4)?);
        let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        at += 12;
        if kind == KIND_ENUM && text(strings, name) == Some(wanted) {
            let values = (0..members).map(|member| {
                let at = at + member * 8;
                Some((word(types, at + 4)?, text(strings, word(types, at)?)?.to_owned()))
            });
            return values.collect();
        }
        at += trailer_bytes(kind, members)?;
    }
    None
}

/// Returns the length of the bytes that follow `struct btf_type`.
fn trailer_bytes(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // Pointer, forward, typedef, volatile, const, restrict, function, float, type tag.
        2 | 7..=12 | 16 | 18 => 0,
        // Integer, variable, declaration tag.
        1 | 14 | 17 => 4,
        // Array.
        3 => 12,
        // Structure, union, variables of a section, enumeration of 64 bits.
        4 | 5 | 15 | 19 => members * 12,
        // Enumeration, parameters.
        6 | 13 => members * 8,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn text(strings: &[u8], at: u32) -> Option<&str> {
    let rest = strings.get(at as usize..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a BTF with an integer type and `enum skb_drop_reason { A = 0, B = 7 }`.
    fn sample() -> Vec<u8> {
        let strings = b"\0skb_drop_reason\0A\0B\0";
        let words: [u32; 11] = [0, 1 << 24, 4, 32, 1, KIND_ENUM << 24 | 2, 4, 17, 0, 19, 7];
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        let header = [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
        btf.extend(header.iter().flat_map(|word| word.to_ne_bytes()));
        btf.extend(types);
        btf.extend(strings);
        btf
    }

    #[test]
    fn names_of_an_enumeration_are_found_behind_other_types() {
        let names = enum_names(&sample(), "skb_drop_reason");
        assert_eq!(names, BTreeMap::from([(0, "A".to_owned()), (7, "B".to_owned())]));
        assert_eq!(enum_names(&sample(), "another"), BTreeMap::new());
    }

    #[test]
    fn a_cut_btf_has_no_names() {
        let btf = sample();
        for length in 0..btf.len() {
            enum_names(&btf[..length], "skb_drop_reason");
        }
        assert_eq!(enum_names(b"", "skb_drop_reason"), BTreeMap::new());
    }
}
