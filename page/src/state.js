// What the page shows, as its address has it: #method=yarn&n=2048 ... What is as at the beginning is left out.

// A kind of value: from the address's text to a value, undefined when it is none; and what is expected, in words.
export const number = (low, high, whole = true) => ({
    read: (text) => {
        const x = Number(text);
        return text !== '' && Number.isFinite(x) && x >= low && x <= high && (!whole || Number.isInteger(x))
            ? x
            : undefined;
    },
    write: String,
    expects: `a ${whole ? 'whole ' : ''}number from ${low} to ${high}`,
});
export const text = (most) => ({
    read: (t) => (t.length <= most ? t : undefined),
    write: String,
    expects: `at most ${most} characters`,
});
export const list = (most) => ({
    read: (t) => (t.length <= most ? t.split(',').filter(Boolean) : undefined),
    write: (x) => x.join(','),
    expects: 'names between commas',
});
export const numbers = (most) => ({
    read: (t) => {
        const all = t.split(',').map(Number);
        return t === '' ? [] : all.length <= most && all.every((x) => Number.isFinite(x) && x > 0) ? all : undefined;
    },
    write: (x) => x.map((y) => +y.toPrecision(4)).join(','),
    expects: 'numbers above 0 between commas',
});

const kinds = {},
    first = {},
    now = {},
    listeners = {};
const complaints = [];

const fromAddress = () => new URLSearchParams(location.hash.slice(1));

let timer;
function writeAddress() {
    clearTimeout(timer);
    timer = setTimeout(() => {
        const all = new URLSearchParams();
        for (const key of Object.keys(kinds)) {
            const value = kinds[key].write(now[key]);
            if (value !== kinds[key].write(first[key])) all.set(key, value);
        }
        const hash = all.toString().replaceAll('%2C', ',').replaceAll('%3A', ':').replaceAll('%3D', '=');
        try {
            history.replaceState(null, '', hash ? `#${hash}` : location.pathname + location.search);
        } catch {
            // a browser that does not let a file change its address: the page works without
        }
    }, 150);
}

export const state = {
    // Makes a key known, with its first value; the address's goes before it.
    add(key, kind, value) {
        kinds[key] = kind;
        first[key] = now[key] = value;
        listeners[key] = [];
        const said = fromAddress().get(key);
        if (said === null) return;
        const read = kind.read(said);
        if (read === undefined) complaints.push(`${key}=${said.slice(0, 40)} in the address is not ${kind.expects}`);
        else now[key] = read;
    },
    get: (key) => now[key],
    set(key, value) {
        if (kinds[key].write(value) === kinds[key].write(now[key])) return;
        now[key] = value;
        writeAddress();
        for (const listener of listeners[key]) listener(value);
    },
    // Sets a key from text; false when the text is no such value.
    put(key, said) {
        const value = kinds[key].read(String(said).trim());
        if (value !== undefined) state.set(key, value);
        return value !== undefined;
    },
    expects: (key) => kinds[key].expects,
    on(keys, listener) {
        for (const key of [keys].flat()) listeners[key].push(listener);
    },
    // What the address said that could not be used.
    complaints: () => complaints,
};

addEventListener('hashchange', () => {
    const said = fromAddress();
    for (const key of Object.keys(kinds)) {
        const read = said.has(key) ? kinds[key].read(said.get(key)) : first[key];
        if (read !== undefined) state.set(key, read);
    }
});
