// What a promise ends with that was cancelled.
export class Cancelled extends Error {
    isCancelled = true;
}
