// Builds the page into build/page: the C by emscripten, the modules by esbuild, then index.html and the
// tool, config.html, with their files beside them, and rope.html, which holds everything and opens from disk.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import * as esbuild from 'esbuild';
import { toBase85 } from './src/base85.js';

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const out = join(root, 'build/page');
const objects = join(root, 'build/page-objects');
const MOST_BYTES = 8e6; // of rope.html
const CARD = 'One text, written past position 512 twice: it breaks as trained, and goes on with YaRN'; // what card.png shows

// The distribution's emscripten 3.1.6 looks for acorn where Debian keeps node's modules.
const environment = { ...process.env, NODE_PATH: '/usr/share/nodejs' };
const COMPILE = [
    '-std=gnu11',
    '-O3',
    '-msimd128',
    '-DATTENTION_IN_FLOATS',
    '-Wall',
    '-Wextra',
    '-Werror',
    '-Wno-unknown-pragmas',
    '-ffp-contract=fast',
];
const LINK = [
    '-O3',
    '-sALLOW_MEMORY_GROWTH=1',
    '-sTOTAL_STACK=5242880', // readings of engines hold lists
    '-sMAXIMUM_MEMORY=2GB',
    '-sABORTING_MALLOC=0',
    '-sMODULARIZE=1',
    '-sEXPORT_NAME=createRope',
    '-sENVIRONMENT=web,worker',
    '-sEXPORTED_FUNCTIONS=_malloc,_free',
    '-sEXPORTED_RUNTIME_METHODS=FS',
];

const silent = /^\w*s/.test(process.env.MAKEFLAGS ?? ''); // make -s
const say = (text) => silent || console.log(`page: ${text}`);
const run = (program, args) => execFileSync(program, args, { env: environment, stdio: 'inherit', cwd: root });
const newest = (files) => Math.max(...files.map((file) => statSync(file).mtimeMs));

// All .c and .h files of the program; tests and tools are no part of it.
function sources(folder, end) {
    return readdirSync(join(root, folder), { recursive: true })
        .filter((name) => name.endsWith(end) && !name.endsWith('/main.c')) // ./llama and ./core are programs of their own
        .map((name) => join(root, folder, name));
}

// Each C file that is older than its object, or than a header, is compiled again.
function buildWasm() {
    mkdirSync(objects, { recursive: true });
    const builder = fileURLToPath(import.meta.url);
    const headers = newest([builder, join(here, 'page.h'), join(root, 'rope.h'), ...sources('src', '.h')]);
    const own = [join(here, 'page.c'), join(here, 'reader.c')];
    const files = [...own, join(root, 'rope.c'), ...sources('src', '.c')];
    const made = files.map((file, i) => {
        const object = join(
            objects,
            file
                .slice(root.length + 1)
                .replaceAll('/', '-')
                .replace(/c$/, 'o'),
        );
        const time = statSync(object, { throwIfNoEntry: false })?.mtimeMs ?? 0;
        if (time < Math.max(headers, newest([file]))) {
            say(`emcc ${file.slice(root.length + 1)} (${i + 1} of ${files.length})`);
            run('emcc', [...COMPILE, '-c', file, '-o', object]);
        }
        return object;
    });
    const glue = join(objects, 'rope.js');
    if ((statSync(glue, { throwIfNoEntry: false })?.mtimeMs ?? 0) < newest(made)) {
        say('emcc links them');
        run('emcc', [...LINK, ...made, '-o', glue]);
    }
    return glue;
}

// The licences of what is bundled, for the end of the script.
function notices() {
    const lock = JSON.parse(readFileSync(join(here, 'package-lock.json'), 'utf8'));
    return Object.keys(lock.packages)
        .filter((path) => path && !lock.packages[path].dev)
        .map((path) => {
            const text = readFileSync(join(here, path, 'LICENSE'), 'utf8').trim();
            return `${path.replace('node_modules/', '')} ${lock.packages[path].version}\n${text}`;
        })
        .join('\n\n');
}

const HOW = {
    bundle: true,
    minify: true,
    write: false,
    target: 'es2022',
    legalComments: 'none',
    alias: { 'rope-glue': join(objects, 'rope.js') },
    external: ['fs', 'path', 'crypto'],
    loader: { '.json': 'json' },
    logLevel: 'warning',
};

// One script, as a text.
async function bundle(entry, define) {
    const made = await esbuild.build({ ...HOW, entryPoints: [join(here, 'src', entry)], format: 'iife', define });
    return made.outputFiles[0].text;
}

// A module that fetches the rest when it is needed: [name, text] of each file, the entry's first.
async function split(entry, define) {
    const made = await esbuild.build({
        ...HOW,
        ...{ entryPoints: [join(here, 'src', entry)], format: 'esm', splitting: true, define },
        ...{ outdir: out, entryNames: '[name]', chunkNames: 'page-[hash]' },
    });
    const files = made.outputFiles.map(({ path, text }) => [basename(path), text]),
        name = entry.replace(/.*\//, '');
    return files.sort(([a], [b]) => +(b === name) - +(a === name));
}

// The lines of rope.c for each method and distance map, with the comment above them, by name.
function formulas() {
    const source = readFileSync(join(root, 'rope.c'), 'utf8'),
        found = {};
    for (const [, name, formula] of source.matchAll(/^ {4}\{"([\w-]+)", (\w+),/gm)) {
        const code = source.match(new RegExp(`(?:^//.*\\n)*^static \\w+ ${formula}\\([^]*?(?:^}|}$)`, 'm'));
        if (!code) throw new Error(`rope.c has a row for ${name}, and no function ${formula}`);
        found[name] = { name: formula, code: code[0] };
    }
    return JSON.stringify(found);
}

const inline = (script) => script.replaceAll('</script', '<\\/script');

buildWasm();
say('esbuild bundles the modules');
const worker = await bundle('worker.js', {});
const known = { WORKER_SOURCE: JSON.stringify(worker), METHOD_SOURCES: formulas() },
    modules = await split('first.js', known),
    script = await bundle('first.js', known);
const tool = await bundle('tool.js', { METHOD_SOURCES: formulas() });
const licences = `/*\n${notices()}\n*/`.replaceAll('</', '< /');
const style = (await esbuild.build({ entryPoints: [join(here, 'style.css')], minify: true, write: false }))
    .outputFiles[0].text;
const html = readFileSync(join(here, 'index.html'), 'utf8');
const wasm = readFileSync(join(objects, 'rope.wasm'));
const model = readFileSync(join(root, 'model.bin'));
const tokenizer = readFileSync(join(root, 'tokenizer.bin'));
const book = readFileSync(join(root, 'book.txt'));

// The browser itself holds the page to what is promised: nothing but its own files is ever asked for.
const policy = (connect) =>
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src 'self' data:; ` +
    `script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; ` +
    `worker-src blob:; connect-src ${connect}">`;
const fill = (parts, template = html) => template.replace(/<!-- (\w+) -->/g, (_, name) => parts[name] ?? '');

// What a link to a page shows where links have cards. Most places want whole addresses: SITE is where the page will be.
const site = process.env.SITE ?? '';
const card = (template) => {
    const of = (pattern) => template.match(pattern)[1].replace(/\s+/g, ' ').replaceAll('"', '&quot;');
    const all = {
        'og:type': 'website',
        'og:title': of(/<title>([^<]*)/),
        'og:description': of(/name="description" content="([^"]*)/),
        'og:image': `${site}card.png`,
        'og:image:alt': CARD,
    };
    const lines = Object.entries(all).map(([name, words]) => `<meta property="${name}" content="${words}">`);
    return [...lines, '<meta name="twitter:card" content="summary_large_image">'].join('\n');
};

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const name of ['model.bin', 'tokenizer.bin']) copyFileSync(join(root, name), join(out, name));
writeFileSync(join(out, 'book.txt'), book);
writeFileSync(join(out, 'rope.wasm'), wasm);
// The licences are in one of them, which the first picture does not wait for.
const lastOne = modules.reduce((a, b) => (b[1].length > a[1].length ? b : a));
for (const one of modules) writeFileSync(join(out, one[0]), `${one[1]}${one === lastOne ? licences : ''}\n`);
writeFileSync(join(out, 'page.css'), style);
writeFileSync(join(out, 'tool.js'), `${tool}${licences}\n`);
copyFileSync(join(root, 'docs/figures/page.png'), join(out, 'card.png'));
const toolHtml = readFileSync(join(here, 'tool.html'), 'utf8');
const beside = { policy: policy("'self'"), style: '<link rel="stylesheet" href="page.css">' };
const deferred = { ...beside, script: '<script src="tool.js" defer></script>', card: card(toolHtml) };
writeFileSync(join(out, 'config.html'), fill(deferred, toolHtml));
// Where the modules cannot be had the page says why, and shows its picture: from disk a browser loads none.
const picture = `<img class="card" src="card.png" alt="${CARD}">`,
    lost =
        `<script>function lost(){const say=()=>{const boot=document.getElementById('boot');` +
        `boot.className='status bad';boot.innerHTML=(location.protocol==='file:'?'Opened from disk, a page may not load ` +
        `its own files. Open rope.html, which is one file, or run python3 page/serve.py. The page’s picture:'` +
        `:'The files of this page could not be loaded: try again. Its picture:')+` +
        `document.getElementById('picture').innerHTML};` +
        `document.readyState==='loading'?addEventListener('DOMContentLoaded',say):say()}</script>`;
// What the first screen imports comes together with it, and nothing is painted before it has run: the scene is in the first
// picture, and moves nothing when it comes.
const [[, first]] = modules,
    imported = [...first.matchAll(/from"\.\/(page-[^"]+)"/g)].map(([, name]) => `<link rel="modulepreload" href="${name}">`),
    ahead = [
        lost,
        ...imported,
        '<script type="module" src="first.js" blocking="render" onerror="lost()"></script>',
    ].join('\n');
const held = `<template id="picture">${picture}</template>`;
writeFileSync(join(out, 'index.html'), fill({ ...beside, ahead, picture, script: held, card: card(html) }));
const stored = (name, bytes) =>
    `<script type="text/plain" id="file-${name}">${toBase85(gzipSync(bytes, { level: 9 }))}</script>`;
const whole = fill({
    policy: policy("'none'"),
    style: `<style>${style}</style>`,
    first: stored('rope.wasm', wasm) + stored('book.txt', book),
    files: stored('tokenizer.bin', tokenizer) + stored('model.bin', model),
    script: `<script>${inline(script)}${licences}</script>`,
});
writeFileSync(join(out, 'rope.html'), whole);
if (whole.length > MOST_BYTES) throw new Error(`rope.html has ${whole.length} bytes, more than ${MOST_BYTES}`);
say(`build/page/index.html with its files, build/page/rope.html: ${(whole.length / 1e6).toFixed(2)} MB in one file`);
