// A picture of the page as a file of its own: an SVG that needs no style sheet, with a legend in it.
const OWN = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'fill-opacity', 'font-size', 'font-family', 'text-anchor'];
const LEGEND = 26; // pixels

/** @param {SVGSVGElement} svg that is drawn now @param {{ title: string, colour: string, dash: string }[]} legend */
export function svgOf(svg, legend) {
    const made = /** @type {SVGSVGElement} */ (svg.cloneNode(true)),
        [, , width, height] = (svg.getAttribute('viewBox') ?? '0 0 600 300').split(' ').map(Number),
        colours = getComputedStyle(document.body);
    const from = [svg, ...svg.querySelectorAll('*')],
        to = [made, ...made.querySelectorAll('*')];
    for (const [i, one] of from.entries()) {
        const its = getComputedStyle(one);
        for (const name of OWN) to[i].setAttribute(name, its.getPropertyValue(name).replace(/"/g, "'"));
        for (const name of ['class', 'style', 'tabindex']) to[i].removeAttribute(name);
    }
    const add = (tag, attributes, text = '') => {
        const part = made.appendChild(document.createElementNS(made.namespaceURI, tag));
        for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, String(value));
        part.textContent = text;
        return part;
    };
    const colour = (name) => colours.getPropertyValue(name.replace(/^var\((.*)\)$/, '$1')).trim() || name,
        step = width / legend.length;
    for (const [i, { title, colour: its, dash }] of legend.entries()) {
        const x = i * step + 8,
            y = height + LEGEND / 2;
        add('line', { x1: x, x2: x + 20, y1: y, y2: y, stroke: colour(its), 'stroke-width': 2.5, 'stroke-dasharray': dash || 'none' });
        add('text', { x: x + 25, y: y + 4, 'font-size': 13, 'font-family': colours.fontFamily.replace(/"/g, "'"), fill: colours.color }, title);
    }
    made.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
    made.setAttribute('viewBox', `0 0 ${width} ${height + LEGEND}`);
    made.setAttribute('width', String(width));
    made.setAttribute('height', String(height + LEGEND));
    return new XMLSerializer().serializeToString(made);
}
