// An element of the page, as all parts and panels make it.

// h('p.note', { onclick }, 'text', child, ...): an element with classes, properties or attributes, and children.
export function h(what, ...rest) {
    const [tag, ...classes] = what.split('.');
    const element = document.createElement(tag);
    if (classes.length) element.className = classes.join(' ');
    const first = rest[0];
    if (first && typeof first === 'object' && !(first instanceof Node) && !Array.isArray(first)) {
        rest.shift();
        for (const [name, value] of Object.entries(first)) {
            if (value === undefined || value === false) continue;
            if (name in element && name !== 'list' && name !== 'form') element[name] = value;
            else element.setAttribute(name, value === true ? '' : value);
        }
    }
    element.append(...rest.flat().filter((child) => child !== undefined && child !== null && child !== false));
    return element;
}
