// The place of a panel. What a panel throws, while it is made or later while it draws, is said in its own place, and
// the other panels go on.
import { h } from './element.js';

let here = null; // the place of the panel that is being made
const places = new Set(); // of panels that are there: { fail, isGone }

// A panel by its function (context) => { title, id, body }. Where that fails, a panel in its place says why.
export function panelOf(make, context, index = 0) {
    const note = h('p.failed', { role: 'alert', hidden: true });
    const fail = (error) => {
        if (error.isCancelled) return; // another model is opened, which makes all panels anew
        console.warn(error);
        note.hidden = false;
        note.textContent = `This panel failed: ${error.message}. The others go on.`;
    };
    const before = here;
    here = { fail, isGone: false };
    places.add(here);
    try {
        const { body, ...panel } = make(context);
        return { ...panel, body: [note, ...[body].flat()] };
    } catch (error) {
        fail(error);
        return { title: 'A panel that failed', id: `panel-${index + 1}`, body: [note] };
    } finally {
        here = before;
    }
}

// All panels go: whatever they still wanted to draw or to say is not heard.
export function leaveAll() {
    for (const place of places) place.isGone = true;
    places.clear();
}

// A function of the panel that is being made now: what it throws later is said in that panel's place.
export function kept(work) {
    const place = here;
    if (!place) return work;
    return (...given) => {
        if (place.isGone) return undefined;
        try {
            const result = work(...given);
            if (result instanceof Promise) result.catch(place.fail);
            return result;
        } catch (error) {
            place.fail(error);
            return undefined;
        }
    };
}
