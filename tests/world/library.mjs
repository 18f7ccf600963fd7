// Hugging Face's libraries, asked through files:
//
//   node library.mjs FOLDER ids SPEC TEXTS       a line of ids for each text of TEXTS, a list in JSON
//   node library.mjs FOLDER texts SPEC IDS       the texts of lists of ids, as JSON, a line each
//   node library.mjs FOLDER turns CONFIG CHATS   what CONFIG's chat_template makes of lists of messages, as JSON
//   node library.mjs FOLDER llama2               Llama 2's vocabulary and merges, as JSON
import { createRequire } from 'node:module';
import { readFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, what, spec, input] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(folder), 'package.json'));
const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
const name = (token) => (token && typeof token === 'object' ? token.content : token) ?? undefined;

function write(text) {
  let bytes = Buffer.from(text);
  while (bytes.length > 0) bytes = bytes.subarray(writeSync(1, bytes));
}

if (what === 'ids' || what === 'texts') {
  const { Tokenizer } = require('tokenizers');
  const tokenizer = Tokenizer.fromString(readFileSync(spec, 'utf8'));
  for (const item of read(input)) {
    if (what === 'texts') write(JSON.stringify(await tokenizer.decode(item, false)) + '\n');
    else write((await tokenizer.encode(item, null, { addSpecialTokens: false })).getIds().join(' ') + '\n');
  }
} else if (what === 'turns') {
  const { Template } = require('@huggingface/jinja');
  const config = read(spec);
  const template = new Template(config.chat_template);
  for (const messages of read(input)) {
    const said = { messages, add_generation_prompt: true, bos_token: name(config.bos_token),
                   eos_token: name(config.eos_token), enable_thinking: config.enable_thinking ?? true };
    write(JSON.stringify(template.render(said)) + '\n');
  }
} else {
  const place = path.join(path.resolve(folder), 'node_modules', 'llama-tokenizer-js', 'llama-tokenizer.js');
  const module = await import(pathToFileURL(place).href);
  const tokenizer = new module.LlamaTokenizer();
  const merges = [...tokenizer.merges].sort((a, b) => a[1] - b[1]).map((pair) => pair[0]);
  write(JSON.stringify({ tokens: tokenizer.vocabById, merges }));
}
