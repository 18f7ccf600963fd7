// Bytes as text, four of them in five letters, for files inside rope.html. The letters are the printable
// ones of ASCII but for nine that mean something in HTML or in JavaScript.
const NOT = '"&\'-/<>\\`';
const LETTERS = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)).filter((c) => !NOT.includes(c));
const VALUES = new Uint8Array(128);
LETTERS.forEach((letter, value) => {
    VALUES[letter.charCodeAt(0)] = value;
});

// The last one to three bytes become one letter more than they are.
export function toBase85(bytes) {
    const parts = [];
    for (let at = 0; at < bytes.length; at += 4) {
        const n = Math.min(4, bytes.length - at);
        let word = 0;
        for (let i = 0; i < 4; i++) word = word * 256 + (i < n ? bytes[at + i] : 0);
        let letters = '';
        for (let i = 0; i < 5; i++, word = Math.floor(word / 85)) letters = LETTERS[word % 85] + letters;
        parts.push(letters.slice(0, n + 1));
    }
    return parts.join('');
}

export function fromBase85(text) {
    const letters = new TextEncoder().encode(text),
        whole = Math.floor(letters.length / 5),
        rest = letters.length % 5;
    const bytes = new Uint8Array(4 * whole + Math.max(0, rest - 1));
    const last = LETTERS.length - 1;
    for (let k = 0; 5 * k < letters.length; k++) {
        let word = 0;
        for (let i = 5 * k; i < 5 * k + 5; i++) word = word * 85 + (i < letters.length ? VALUES[letters[i]] : last);
        for (let i = 0; i < 4 && 4 * k + i < bytes.length; i++) bytes[4 * k + i] = word >>> (24 - 8 * i);
    }
    return bytes;
}
