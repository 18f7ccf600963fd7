// What is no JavaScript of the page's own: files that esbuild bundles, and emscripten's glue.
declare module '*.txt' {
    const text: string;
    export default text;
}
declare module 'rope-glue' {
    const create: (options: object) => Promise<any>;
    export default create;
}
declare const WORKER_SOURCE: string;
declare const METHOD_SOURCES: Record<string, { name: string; code: string }>;
declare const DROPPED: { perplexity: string[][]; keys: string[][] };
