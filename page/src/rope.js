// The compiled program, with JavaScript's types: page.c's functions, called with strings and arrays.
import createRope from 'rope-glue';

const POINTER = 4;

// What the program says when it cannot do something: a line for people, not a fault of the page.
export class Refusal extends Error {}

// `module` is the program, compiled; what the C prints goes to lines that `printed` collects.
/** @param {WebAssembly.Module} module @returns {Promise<Rope>} */
export function loadRope(module) {
    const lines = [];
    return new Promise((resolve, reject) => {
        const instantiateWasm = (imports, done) => {
            WebAssembly.instantiate(module, imports).then(done, reject);
            return {};
        };
        createRope({ instantiateWasm, print: (line) => lines.push(line), printErr: () => {} }).then(
            (wasm) => resolve(new Rope(wasm, lines)),
            reject,
        );
    });
}

export class Rope {
    constructor(wasm, lines) {
        this.wasm = wasm;
        this.lines = lines;
    }

    // Calls `use` with the address of a copy of the bytes, which then is gone.
    with(bytes, use) {
        const at = this.wasm._malloc(bytes.length + 1);
        if (!at) throw new Refusal(`the page cannot get ${(bytes.length / 1e6).toFixed(1)} MB of memory for this text`);
        this.wasm.HEAPU8.set(bytes, at);
        this.wasm.HEAPU8[at + bytes.length] = 0;
        try {
            return use(at);
        } finally {
            this.wasm._free(at);
        }
    }

    withText(text, use) {
        const bytes = new TextEncoder().encode(text);
        return this.with(bytes, (at) => use(at, bytes.length));
    }

    bytes(at, n) {
        return this.wasm.HEAPU8.slice(at, at + n);
    }
    doubles(at, n) {
        return Float64Array.from(this.wasm.HEAPF64.subarray(at / 8, at / 8 + n));
    }
    string(at) {
        const end = this.wasm.HEAPU8.indexOf(0, at);
        return new TextDecoder().decode(this.wasm.HEAPU8.subarray(at, end));
    }

    // A page: a model, from the bytes of its file and its tokenizer's. What is said of the files has their names.
    openModel(model, tokenizer, names = { model: 'model.bin', tokenizer: 'tokenizer.bin' }) {
        const page = new Page(this);
        const { FS } = this.wasm;
        FS.writeFile(names.model, model, { canOwn: true }); // without a copy
        FS.writeFile(names.tokenizer, tokenizer, { canOwn: true });
        const opened = this.withText(names.model, (m) =>
            this.withText(names.tokenizer, (t) => this.wasm._page_open(page.at, m, t)),
        );
        FS.unlink(names.model); // what is mapped is a copy
        FS.unlink(names.tokenizer);
        try {
            page.check(opened);
        } catch (error) {
            page.close();
            throw error;
        }
        return page;
    }

    // A page in the place of a model of which only these numbers are known.
    describe(headDim, theta, trainedContext) {
        const page = new Page(this);
        try {
            page.check(this.wasm._page_describe(page.at, headDim, theta, trainedContext));
        } catch (error) {
            page.close();
            throw error;
        }
        return page;
    }

    // A page in the place of the model of a config.json or of its rope block, with these numbers where it says nothing.
    configure(text, headDim, theta, trainedContext) {
        const page = new Page(this);
        try {
            page.check(
                this.withText(text, (at, length) =>
                    this.wasm._page_config(page.at, at, length, headDim, theta, trainedContext),
                ),
            );
        } catch (error) {
            page.close();
            throw error;
        }
        return page;
    }
}

class Page {
    constructor(rope) {
        this.rope = rope;
        this.wasm = rope.wasm;
        this.at = this.wasm._page_new();
        this.inForce = null; // the plan that the C holds
        if (!this.at) throw new Refusal('the page cannot get memory for a model');
    }

    // Throws the program's reason when `good` is not.
    check(good) {
        if (!good) throw new Refusal(this.rope.string(this.wasm._page_error(this.at)));
        return good;
    }

    close() {
        this.wasm._page_free(this.at);
        this.at = 0;
    }

    // Numbers of the model. `sees` has for each layer how many positions a query sees (0: all) and its theta (0: it does
    // not turn).
    facts() {
        const [layers, heads, headDim, theta, trainedContext, vocabulary, bos, bytes] = this.rope.doubles(
            this.wasm._page_facts(this.at),
            8,
        );
        const sees = Array.from({ length: layers }, (_, layer) => ({
            window: this.wasm._page_layer_window(this.at, layer),
            theta: this.wasm._page_layer_theta(this.at, layer),
        }));
        return { layers, heads, headDim, theta, trainedContext, vocabulary, bos, bytes, sees, ...this.told() };
    }

    // What the model, or the config in its place, says of its method: { method, wholeHead, maxPositions, factor,
    // countsFactor, filled, unused, remarks }: countsFactor says that maxPositions counts the factor already, filled are
    // the numbers that stood where the config says nothing, unused are keys that mean nothing to the method, remarks are
    // lines about contradictions and other things that are worth a warning.
    told() {
        const [method, head, positions, factor, counts, gaps, unused, lines] = this.rope
            .string(this.wasm._page_told(this.at))
            .split('\t');
        const filled = ['headDim', 'theta', 'trainedContext'].filter((_, bit) => +gaps & (1 << bit));
        const remarks = lines.split('\n').filter((line) => line);
        const numbers = { wholeHead: +head, maxPositions: +positions, factor: +factor, countsFactor: counts === '1' };
        return { method, ...numbers, filled, unused, remarks };
    }

    // All distance maps: { name, summary, source }.
    maps() {
        return this.rope
            .string(this.wasm._page_maps(this.at))
            .trim()
            .split('\n')
            .map((line) => {
                const [name, summary, source] = line.split('\t');
                return { name, summary, source };
            });
    }

    // A method's plan for `context` positions: as --rope spells it, { full, sliding } as --rope and --rope-sliding spell
    // them, or { divisors, attention } of one that is nobody's.
    plan(method, context) {
        const plan = new Plan(this, method, context);
        plan.use();
        return plan;
    }

    // The lines that a call prints.
    printed(call) {
        this.rope.lines.length = 0;
        this.check(call());
        return this.rope.lines.splice(0);
    }

    encode(text, withBos) {
        const n = this.rope.withText(text, (at, length) => this.wasm._page_encode(this.at, at, length, withBos));
        this.check(n >= 0);
        const at = this.wasm._page_ids(this.at) / POINTER;
        return this.wasm.HEAP32.slice(at, at + n);
    }

    // --passkey's trial `number` of a length, at one of its depths: { ids, key }.
    passkey(length, depth, number, seed) {
        const n = this.wasm._page_passkey(this.at, length, depth, number, seed);
        this.check(n >= 0);
        const at = this.wasm._page_ids(this.at) / POINTER;
        return { ids: this.wasm.HEAP32.slice(at, at + n), key: this.rope.string(this.wasm._page_text(this.at)) };
    }

    piece(previous, id) {
        const length = this.wasm._page_piece(this.at, previous, id);
        return this.rope.bytes(this.wasm._page_text(this.at), length);
    }

    isEnd(id) {
        return !!this.wasm._page_is_end(this.at, id);
    }

    // A text of at most `context` positions, read by `method`. Must be closed.
    open(method, context) {
        this.plan(method, context);
        return new Reader(this, this.check(this.wasm._page_reader_new(this.at, context)));
    }
}

// The rows of a table as the program prints it, each by the names of its columns.
function rowsOf(lines) {
    const [names, ...rows] = lines.filter((line) => line[0] !== '#').map((line) => line.split('\t'));
    return rows.map((cells) => Object.fromEntries(names.map((name, i) => [name, cells[i]])));
}

// A method as a page plans it. The C holds one plan at a time; a plan that is asked puts itself in force first.
class Plan {
    constructor(page, method, context) {
        this.page = page;
        this.rope = page.rope;
        this.wasm = page.wasm;
        this.method = method;
        this.context = context;
    }

    // Puts the plan in force, or throws why it cannot be.
    use() {
        const { page, method, context } = this;
        if (page.inForce === this) return page.at;
        page.inForce = null;
        const { full, sliding } = typeof method === 'string' ? { full: method, sliding: '' } : method;
        if (full !== undefined)
            page.check(
                this.rope.withText(full, (f) =>
                    this.rope.withText(sliding, (s) => this.wasm._page_plan(page.at, f, s, context)),
                ),
            );
        else {
            const bytes = new Uint8Array(Float64Array.from(method.divisors).buffer);
            const attention = method.attention || 1;
            page.check(this.rope.with(bytes, (at) => this.wasm._page_plan_divisors(page.at, at, attention, context)));
        }
        page.inForce = this;
        return page.at;
    }

    // What is worth a warning at a length; empty: nothing.
    advice(length) {
        return this.rope.string(this.wasm._page_advice(this.use(), length));
    }

    // D(i, j) of a distance map; -1 where a query at i does not see a key at j.
    distance(i, j) {
        return this.wasm._page_distance(this.use(), i, j);
    }

    // The plan for `length` positions: { scale, attention, frequencies, plain } in radians per position.
    frequencies(length) {
        const at = this.wasm._page_frequencies(this.use(), length);
        const [pairs, scale, attention] = this.rope.doubles(at, 3);
        const all = this.rope.doubles(at + 24, 2 * pairs);
        return { scale, attention, frequencies: all.slice(0, pairs), plain: all.slice(pairs) };
    }

    // --explain at a length: { notes, kinds }, its notes by their keys, and the pairs of each kind of layers (full, sliding;
    // '' where all are alike): { plain, frequencies } in radians per position. A kind that does not turn has none.
    explain(length) {
        const lines = this.page.printed(() => this.wasm._page_explain(this.use(), length)),
            notes = {},
            kinds = {};
        for (const line of lines) {
            const note = line.match(/^# (\S+)\t(.*)$/);
            if (note) notes[note[1]] = note[2];
        }
        for (const row of rowsOf(lines)) {
            const { plain, frequencies } = (kinds[row.layers ?? ''] ??= { plain: [], frequencies: [] });
            plain.push(+row.inv_freq);
            frequencies.push(+row.scaled_inv_freq);
        }
        return { notes, kinds };
    }

    // The lines of --rope-json.
    json() {
        return this.page.printed(() => this.wasm._page_json(this.use()));
    }

    // --engines for a text of `length` positions: the date of its facts, and its rows: { engine, layers, version, verdict,
    // most, pair, times, attention, note }. `layers` is full or sliding where they differ, and there are two rows of an
    // engine. `most` are the positions that the engine allows, Infinity without a limit, NaN where nobody knows; there is no
    // pair where frequencies are the same.
    engines(length) {
        const lines = this.page.printed(() => this.wasm._page_engines(this.use(), length)),
            date = lines.find((line) => line.startsWith('# facts_of\t')).split('\t')[1];
        const rows = rowsOf(lines).map((row) => ({
            engine: row.engine,
            layers: row.layers ?? '',
            version: row.version,
            verdict: row.verdict,
            most: row.max_len === '-' ? Infinity : +row.max_len,
            pair: row.worst_pair === '-' ? null : +row.worst_pair,
            times: +row.worst_ratio,
            attention: +row.attention_factor,
            note: row.note,
        }));
        return { date, rows };
    }

    // The rows of --check about settings for a text of `length` positions: { check, value, limit, verdict }.
    judge(length) {
        const lines = this.page.printed(() => this.wasm._page_check(this.use(), length));
        return rowsOf(lines).map(({ check, value, limit, verdict }) => ({ check, value, limit, verdict }));
    }
}

class Reader {
    constructor(page, at) {
        this.page = page;
        this.wasm = page.wasm;
        this.at = at;
    }

    close() {
        this.wasm._page_reader_free(this.at);
        this.at = 0;
    }

    get position() {
        return this.wasm._page_reader_position(this.at);
    }
    rewind(position) {
        this.wasm._page_reader_rewind(this.at, position);
    }

    // Reads ids at a current length; the last `kept` keep their logits.
    read(ids, length, kept) {
        const bytes = new Uint8Array(Int32Array.from(ids).buffer);
        this.page.check(
            this.page.rope.with(bytes, (at) => this.wasm._page_reader_read(this.at, at, ids.length, length, kept)),
        );
    }

    // -ln p of ids[1], ids[2], ...: reads them, all but the last, after what was read, at a current length.
    score(ids, length) {
        const n = ids.length;
        return this.page.rope.with(new Uint8Array(12 * n), (at) => {
            // malloc's addresses suit doubles: they come first
            this.wasm.HEAP32.set(ids, (at + 8 * n) / POINTER);
            this.page.check(this.wasm._page_reader_score(this.at, at + 8 * n, n, length, at));
            return this.page.rope.doubles(at, n - 1);
        });
    }

    // Reads an id (again, if need be), and what one head thinks of each position then, for the softmax.
    scores(layer, head, id, length) {
        this.page.check(this.wasm._page_reader_watch(this.at, layer, head));
        this.read([id], length, 1);
        const at = this.wasm._page_reader_scores(this.at) / POINTER;
        return this.wasm.HEAPF32.slice(at, at + this.position);
    }

    // What each pair of that head gives to the score of the key at a position, and what it would give a quarter turn back,
    // { terms, crosses }; null: they cannot be told apart.
    terms(position) {
        const at = this.wasm._page_reader_terms(this.at, position),
            pairs = this.page.facts().headDim / 2;
        if (!at) return { terms: null, crosses: null };
        const all = this.page.rope.doubles(at, 2 * pairs);
        return { terms: all.slice(0, pairs), crosses: all.slice(pairs) };
    }

    sampler(temperature, topP, seed) {
        this.page.check(this.wasm._page_reader_sampler(this.at, temperature, topP, seed));
    }

    // The next token.
    next() {
        const id = this.wasm._page_reader_next(this.at);
        this.page.check(id >= 0);
        return id;
    }
}
