// 13: a config.json or its rope block is pasted; what it makes of every pair, what is unseen at the length one wants.
export function yourModel() {
    return { number: 13, id: 'model', title: 'Your model', body: [] };
}
