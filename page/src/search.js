// A search for divisors, as --search does it in small: hills of neighbouring pairs are raised or lowered, a step grows
// while it helps and shrinks when it does not (Hooke and Jeeves' pattern search).
const HILLS = 7;
const FIRST_STEP = Math.log(1.5);
const LAST_STEP = Math.log(1.04);

// Pair i's share of a hill: 1 at its top, 0 from the neighbouring hills on.
function share(i, hill, pairs) {
    const width = (pairs - 1) / (HILLS - 1);
    return Math.max(0, 1 - Math.abs(i - hill * width) / width);
}

// Improves `start` (divisors, at least 1) until the steps are small or `goesOn` says no. `cost` is awaited for each
// candidate, `better(divisors, cost)` is told what is best so far.
export async function search(start, cost, { goesOn, better }) {
    const pairs = start.length;
    const steps = Array(HILLS).fill(FIRST_STEP); // of logarithms; the sign is the direction
    let best = [...start];
    let least = await cost(best);
    better(best, least);
    while (goesOn() && steps.some((step) => Math.abs(step) > LAST_STEP)) {
        for (let hill = HILLS - 1; hill >= 0 && goesOn(); hill--) {
            if (Math.abs(steps[hill]) <= LAST_STEP) continue;
            const tried = best.map((s, i) => Math.max(1, s * Math.exp(steps[hill] * share(i, hill, pairs))));
            const found = tried.some((s, i) => s !== best[i]) ? await cost(tried) : Infinity;
            if (found < least) {
                [best, least] = [tried, found];
                steps[hill] *= 1.3;
                better(best, least);
            } else steps[hill] *= -0.5;
        }
    }
    return best;
}
