// How the text of chapter 1 is written, wherever the page writes it again.
export const PAST_TRAINED = 1888; // positions past the trained length
export const HOW = { temperature: 0.8, topP: 0.9 };

// The command that writes it: so many characters of the book, and on to `length` tokens.
export const writes = (file, options, { characters, length, seed }) =>
    `head -c ${characters} book.txt | ./run ${file} -n ${length} -t ${HOW.temperature} -p ${HOW.topP} -s ${seed} ` +
    `--ignore-eos --kv f32 ${options} -f -`;
