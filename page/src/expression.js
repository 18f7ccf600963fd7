// A small language for one formula: numbers, names, + - * / ^, comparisons, c ? a : b, and a few functions. Parsed
// here, never given to the browser as a program.
const FUNCTIONS = {
    log: Math.log,
    exp: Math.exp,
    sqrt: Math.sqrt,
    abs: Math.abs,
    floor: Math.floor,
    ceil: Math.ceil,
    cos: Math.cos,
    sin: Math.sin,
    min: Math.min,
    max: Math.max,
};
const IN_C = { min: 'fmin', max: 'fmax', abs: 'fabs' };
const NAMES_IN_C = {
    plain: 'p->plain',
    turns: 'p->turns',
    s: 'p->scale',
    L: 'p->config->train_ctx',
    i: 'p->index',
    d: 'p->config->rotary_dim',
};
const BINARY = {
    '<': [1, (a, b) => +(a < b)],
    '>': [1, (a, b) => +(a > b)],
    '+': [2, (a, b) => a + b],
    '-': [2, (a, b) => a - b],
    '*': [3, (a, b) => a * b],
    '/': [3, (a, b) => a / b],
};
const MOST_DEPTH = 60;

function tokens(source) {
    const out = [],
        pattern = /\s*(?:(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)|([A-Za-z]\w*)|([-+*/^()?:,<>]))/y;
    while (pattern.lastIndex < source.trimEnd().length) {
        const at = pattern.lastIndex,
            match = pattern.exec(source);
        if (!match)
            throw new Error(
                `“${source.slice(at).trim().slice(0, 12)}” cannot be read (numbers, names, + - * / ^ ( ) ? : < > ` +
                    `expected)`,
            );
        out.push(match[1] ? { number: +match[1] } : match[2] ? { name: match[2] } : { sign: match[3] });
    }
    return out;
}

// The tree of a formula: ['number', x], ['name', n], ['call', f, ...], [sign, a, b], ['?', c, a, b] or ['minus', a].
function tree(source, names) {
    const all = tokens(source);
    let at = 0,
        depth = 0;
    const sign = (s) => all[at]?.sign === s && ++at;
    const expect = (s) => {
        if (!sign(s))
            throw new Error(
                `“${s}” is missing ` +
                    `${at < all.length ? `before “${all[at].number ?? all[at].name ?? all[at].sign}”` : 'at the end'}`,
            );
    };
    function choice() {
        if (++depth > MOST_DEPTH) throw new Error('the formula is nested too deeply');
        const condition = binary(1);
        let out = condition;
        if (sign('?')) {
            const yes = choice();
            expect(':');
            out = ['?', condition, yes, choice()];
        }
        depth--;
        return out;
    }
    function binary(level) {
        if (level > 3) return unary();
        let left = binary(level + 1);
        for (;;) {
            const s = all[at]?.sign;
            if (!s || BINARY[s]?.[0] !== level) return left;
            at++;
            left = [s, left, binary(level + 1)];
        }
    }
    function unary() {
        if (++depth > MOST_DEPTH) throw new Error('the formula is nested too deeply');
        const out = sign('-') ? ['minus', unary()] : power();
        depth--;
        return out;
    }
    function power() {
        const base = atom();
        return sign('^') ? ['^', base, unary()] : base;
    }
    function atom() {
        const t = all[at++];
        if (!t) throw new Error('the formula ends too early');
        if (t.number !== undefined) return ['number', t.number];
        if (t.sign === '(') {
            const inner = choice();
            expect(')');
            return inner;
        }
        if (!t.name) throw new Error(`“${t.sign}” is not where a number can stand`);
        if (!sign('(')) {
            if (!names.includes(t.name)) throw new Error(`there is no ${t.name} (${names.join(', ')} expected)`);
            return ['name', t.name];
        }
        if (!Object.hasOwn(FUNCTIONS, t.name))
            throw new Error(`there is no function ${t.name} (${Object.keys(FUNCTIONS).join(', ')} expected)`);
        const given = [choice()];
        while (sign(',')) given.push(choice());
        expect(')');
        const wanted = t.name === 'min' || t.name === 'max' ? 2 : 1;
        if (given.length !== wanted) throw new Error(`${t.name} takes ${wanted}, not ${given.length}`);
        return ['call', t.name, ...given];
    }
    const whole = choice();
    if (at < all.length) throw new Error(`“${all[at].number ?? all[at].name ?? all[at].sign}” is one too many`);
    return whole;
}

const evaluate = ([kind, ...parts], values) => {
    if (kind === 'number') return parts[0];
    if (kind === 'name') return values[parts[0]];
    if (kind === 'call') return FUNCTIONS[parts[0]](...parts.slice(1).map((p) => evaluate(p, values)));
    if (kind === 'minus') return -evaluate(parts[0], values);
    if (kind === '?') return evaluate(parts[0], values) ? evaluate(parts[1], values) : evaluate(parts[2], values);
    if (kind === '^') return evaluate(parts[0], values) ** evaluate(parts[1], values);
    return BINARY[kind][1](evaluate(parts[0], values), evaluate(parts[1], values));
};

// A function of an object with these names. Throws what is wrong, in words.
export function parse(source, names) {
    const root = tree(source, names);
    return (values) => evaluate(root, values);
}

const level = (kind) => (kind === '?' ? 0 : (BINARY[kind]?.[0] ?? 9));
function inC([kind, ...parts], outer = 0) {
    const wrap = (text, own) => (own < outer ? `(${text})` : text);
    if (kind === 'number') return Number.isInteger(parts[0]) ? `${parts[0]}.0` : String(parts[0]);
    if (kind === 'name') return NAMES_IN_C[parts[0]];
    if (kind === 'call')
        return `${IN_C[parts[0]] ?? parts[0]}(${parts
            .slice(1)
            .map((p) => inC(p))
            .join(', ')})`;
    if (kind === 'minus') return wrap(`-${inC(parts[0], 9)}`, 4);
    if (kind === '^') return `pow(${inC(parts[0])}, ${inC(parts[1])})`;
    if (kind === '?') return wrap(`${inC(parts[0], 1)} ? ${inC(parts[1])} : ${inC(parts[2])}`, 0);
    return wrap(`${inC(parts[0], level(kind))} ${kind} ${inC(parts[1], level(kind) + 1)}`, level(kind));
}

// The formula as the body of a function in rope.c.
export const toC = (source) => `    return ${inC(tree(source, Object.keys(NAMES_IN_C)))};\n`;
