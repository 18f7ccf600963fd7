// What the program needs of a browser.

// The smallest module with an instruction on vectors of 128 bits: a function that returns i32x4.extract_lane 0 of zeros.
const WITH_VECTORS = [
    ...[0, 97, 115, 109, 1, 0, 0, 0], // magic and version
    ...[1, 5, 1, 96, 0, 1, 127], // one type: () -> i32
    ...[3, 2, 1, 0], // one function of it
    ...[10, 11, 1, 9, 0, 65, 0, 253, 17, 253, 27, 0, 11], // i32.const 0, i32x4.splat, i32x4.extract_lane 0
];

// What this browser lacks, in a sentence; empty: nothing.
export function lacking() {
    if (typeof WebAssembly !== 'object')
        return 'This browser has no WebAssembly, which the program needs. It may be switched off in the settings.';
    if (typeof Worker !== 'function') return 'This browser has no workers, which the program needs.';
    if (!WebAssembly.validate(new Uint8Array(WITH_VECTORS)))
        return (
            'This browser cannot run the program: its WebAssembly has no SIMD. Chrome and Edge have it since 91, Firefox ' +
            'since 89, Safari since 16.4.'
        );
    return '';
}
