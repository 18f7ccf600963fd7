// What is no JavaScript of the page's own: emscripten's glue, and what build.mjs puts in.
declare module 'rope-glue' {
    const create: (options: object) => Promise<any>;
    export default create;
}
declare const WORKER_SOURCE: string;
declare const METHOD_SOURCES: Record<string, { name: string; code: string }>;
