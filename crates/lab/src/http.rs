//! The subset of HTTP/1.1 that the lab's client and server use.

use std::io::{self, ErrorKind, Read};

/// Reads up to and including the empty line; following bytes are left in `rest`.
///
/// # Errors The stream ends or fails before that; `UnexpectedEof` with nothing read means a clean
/// close.
pub fn read_header(stream: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<String> {
    let mut chunk = [0; 16_384];
    loop {
        if let Some(end) = rest.windows(4).position(|w| w == b"\r\n\r\n") {
            let body = rest.split_off(end + 4);
            let header = std::mem::replace(rest, body);
            return Ok(String::from_utf8_lossy(&header).into_owned());
        }
        if rest.len() > 65_536 {
            return Err(io::Error::new(ErrorKind::InvalidData, "header over 64 KiB"));
        }
        match stream.read(&mut chunk)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => rest.extend(&chunk[..n]),
        }
    }
}

/// Returns the value of a header field; the case of its name is ignored.
pub fn field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    header.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Returns the length of the body; `None` means chunked.
pub fn body_bytes(header: &str) -> Option<u64> {
    if field(header, "transfer-encoding").is_some_and(|v| v.contains("chunked")) {
        return None;
    }
    Some(field(header, "content-length").and_then(|v| v.parse().ok()).unwrap_or(0))
}

/// Reads a chunked body to its end and returns its wire length (RFC 9112 §7.1).
///
/// # Errors
/// The stream ends, fails, or is not chunked.
pub fn read_chunked(stream: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<u64> {
    let mut total = 0;
    loop {
        let line_end = loop {
            match rest.windows(2).position(|w| w == b"\r\n") {
                Some(at) => break at,
                None => more(stream, rest)?,
            }
        };
        let line = String::from_utf8_lossy(&rest[..line_end]).into_owned();
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)
            .map_err(|_| io::Error::new(ErrorKind::InvalidData, "bad chunk size"))?;
        let whole = line_end + 2 + size + 2;
        while rest.len() < whole {
            more(stream, rest)?;
        }
        rest.drain(..whole);
        total += whole as u64;
        if size == 0 {
            return Ok(total);
        }
    }
}

fn more(stream: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = [0; 16_384];
    match stream.read(&mut chunk)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        n => {
            rest.extend(&chunk[..n]);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_ends_at_the_blank_line() {
        let mut stream: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        let mut rest = Vec::new();
        let header = read_header(&mut stream, &mut rest).unwrap_or_default();
        assert_eq!(body_bytes(&header), Some(3));
        assert_eq!(rest, b"abc");
    }

    #[test]
    fn chunks_are_read_to_the_last() {
        let mut rest = b"3\r\nab".to_vec();
        let mut stream: &[u8] = b"c\r\n0\r\n\r\nnext";
        assert_eq!(read_chunked(&mut stream, &mut rest).ok(), Some(13));
        assert_eq!(rest, b"next");
    }
}
