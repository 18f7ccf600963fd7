// What the page shows, as in its address: #method=yarn&n=2048 ... What is as at the beginning is left out.
import { kept } from './place.js';

// A kind of value: from the address's text to a value, undefined for any other text; and what is expected, in words.
// `only` narrows a number: { is, words }.
export const number = (low, high, whole = true, only) => ({
    read: (written) => {
        const x = Number(written);
        const good =
            written !== '' && x >= low && x <= high && (!whole || Number.isInteger(x)) && (!only || only.is(x));
        return good ? x : undefined;
    },
    write: String,
    expects: `a ${whole ? 'whole ' : ''}number from ${low} to ${high}${only ? `, ${only.words}` : ''}`,
});
export const text = (most) => ({
    read: (written) => (written.length <= most ? written : undefined),
    write: String,
    expects: `at most ${most} characters`,
});
// One of some values, as they are written.
export const choice = (values) => ({
    read: (written) => values.find((value) => String(value) === written),
    write: String,
    expects: `one of ${values.join(', ')}`,
});
// Any number of some names.
export const choices = (names) => ({
    read: (written) => {
        const all = written.split(',').filter(Boolean);
        return all.every((name) => names.includes(name)) ? [...new Set(all)] : undefined;
    },
    write: (x) => x.join(','),
    expects: `some of ${names.join(', ')}`,
});
// So many numbers between two limits, or none. The address has them to six digits.
export const numbers = (many, low, high) => ({
    read: (written) => {
        const all = written === '' ? [] : written.split(',').map(Number);
        const good = all.length === many && all.every((x) => x >= low && x <= high);
        return good || written === '' ? all : undefined;
    },
    write: (x) => x.map((y) => +y.toPrecision(6)).join(','),
    expects: `${many} numbers from ${low} to ${high} between commas`,
});

const kinds = {},
    first = {},
    now = {},
    listeners = {};
const complaints = [];

const fromAddress = () => new URLSearchParams(location.hash.slice(1));

// What an address says of a key, or else its first value.
function inAddress(all, key) {
    if (!all.has(key)) return first[key];
    const written = all.get(key),
        read = kinds[key].read(written);
    if (read !== undefined) return read;
    complaints.push(`${key}=${written.slice(0, 40)} in the address is not ${kinds[key].expects}`);
    return first[key];
}

const GESTURE_MS = 1500; // changes that follow one another faster are one step of the browser's back button

// The address that says all that is not as at the beginning.
function addressNow() {
    const all = new URLSearchParams();
    for (const key of Object.keys(kinds)) {
        const value = kinds[key].write(now[key]);
        if (value !== kinds[key].write(first[key])) all.set(key, value);
    }
    const hash = all.toString().replaceAll('%2C', ',').replaceAll('%3A', ':').replaceAll('%3D', '=');
    return hash ? `#${hash}` : location.pathname + location.search;
}

let timer,
    lastStep = -Infinity, // when the reader last changed something
    isFollowing = false; // the address, which then is written already
// What the reader changes is a step to come back from; what follows from it, or loads, is not.
function writeAddress(isStep) {
    clearTimeout(timer);
    timer = setTimeout(() => {
        const address = addressNow(),
            time = performance.now(),
            isNew = isStep && time - lastStep > GESTURE_MS && navigator.userActivation?.isActive;
        if (isStep) lastStep = time;
        if (address === (location.hash || location.pathname + location.search)) return;
        try {
            if (isNew) history.pushState(null, '', address);
            else history.replaceState(null, '', address);
        } catch {
            // a browser that does not let a file change its address: the page works without
        }
    }, 150);
}

export const state = {
    // Makes a key known, with its kind and its first value; the address's goes before that.
    add(key, kind, value) {
        if (kinds[key]) throw new Error(`two panels call something ${key}`);
        kinds[key] = kind;
        first[key] = now[key] = value;
        listeners[key] = [];
        now[key] = inAddress(fromAddress(), key);
    },
    get: (key) => now[key],
    set(key, value) {
        if (JSON.stringify(value) === JSON.stringify(now[key])) return;
        now[key] = value;
        if (!isFollowing) writeAddress(key !== 'at');
        for (const listener of listeners[key]) listener(value);
    },
    // Does not wait for the next change, where an address is wanted at once.
    writeNow() {
        clearTimeout(timer);
        try {
            history.replaceState(null, '', addressNow());
        } catch {
            // as above
        }
    },
    on(keys, listener) {
        const mine = kept(listener);
        for (const key of [keys].flat()) listeners[key].push(mine);
    },
    // Makes keys unknown, and those who listen to them, but these.
    keepOnly(keys) {
        for (const key of Object.keys(kinds))
            if (!keys.includes(key)) for (const all of [kinds, first, now, listeners]) delete all[key];
    },
    keys: () => Object.keys(kinds),
    // What the address says that could not be used.
    complaints: () => complaints,
};

addEventListener('hashchange', () => {
    const written = fromAddress();
    clearTimeout(timer);
    isFollowing = true;
    for (const key of Object.keys(kinds)) state.set(key, inAddress(written, key));
    isFollowing = false;
});
