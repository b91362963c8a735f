//! Mail: headers that are much alike, prose, and attachments in base64 that compress no further.

use super::words::Words;
use crate::rng::Rng;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// One message in this many has an attachment.
const ATTACHED: u64 = 10;

/// Appends until there are `len` bytes.
pub(super) fn fill(out: &mut Vec<u8>, len: usize, rng: &mut Rng) {
    let words = Words::new(rng, 8000, 4);
    let hosts = Words::new(rng, 200, 3);
    while out.len() < len {
        headers(out, &words, &hosts, rng);
        for _ in 0..6 + rng.below(30) {
            line(out, &words, rng);
        }
        if rng.below(ATTACHED) == 0 {
            attachment(out, rng);
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn headers(out: &mut Vec<u8>, words: &Words, hosts: &Words, rng: &mut Rng) {
    let (from, to) = (hosts.pick(rng, 200), hosts.pick(rng, 20));
    let (who, whom) = (words.any(rng), words.pick(rng, 400));
    let (day, hour, minute, second) = (1 + rng.below(28), rng.below(24), rng.below(60), rng.below(60));
    let time = format!("{day} Nov 2026 {hour:02}:{minute:02}:{second:02} +0900");
    let hop = rng.next();
    let subject = sentence(words, rng);
    let text = format!(
        "Return-Path: <{who}@{from}.example>\r\nReceived: from mx{}.{from}.example (mx.{from}.example [192.0.2.{}])\r\n\tby \
         mail.{to}.example (Postfix) with ESMTPS id {hop:016X}\r\n\tfor <{whom}@{to}.example>; {time}\r\nMessage-ID: \
         <{:016x}.{:08x}@{from}.example>\r\nDate: {time}\r\nFrom: {who} <{who}@{from}.example>\r\nTo: {whom} \
         <{whom}@{to}.example>\r\nSubject: {subject}\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Transfer-Encoding: 8bit\r\n\r\n",
        rng.below(4),
        rng.below(256),
        rng.next(),
        rng.next() >> 32,
    );
    out.extend_from_slice(text.as_bytes());
}

fn line(out: &mut Vec<u8>, words: &Words, rng: &mut Rng) {
    if rng.below(4) == 0 && out.len() > 8192 {
        // Answers quote what was said before.
        out.extend_from_slice(b"> ");
        let from = out.len() - 200 - rng.below(6000) as usize;
        out.extend_from_within(from..from + 50 + rng.below(70) as usize);
        out.extend_from_slice(b"\r\n");
        return;
    }
    let text = sentence(words, rng);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn sentence(words: &Words, rng: &mut Rng) -> String {
    let parts: Vec<&str> = (0..6 + rng.below(7)).map(|_| words.pick(rng, 8000)).collect();
    parts.join(" ")
}

fn attachment(out: &mut Vec<u8>, rng: &mut Rng) {
    let name = rng.next();
    let head = format!("--=_{name:016x}\r\nContent-Type: image/jpeg\r\nContent-Transfer-Encoding: base64\r\n\r\n");
    out.extend_from_slice(head.as_bytes());
    for _ in 0..10 + rng.below(80) {
        for _ in 0..76 {
            out.push(BASE64.get(rng.below(64) as usize).copied().unwrap_or(b'='));
        }
        out.extend_from_slice(b"\r\n");
    }
}
